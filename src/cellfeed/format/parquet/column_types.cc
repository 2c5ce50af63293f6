#include "cellfeed/format/parquet/column_types.h"

#include <arrow/api.h>

#include "cellfeed/matrix/obs.h"

namespace cellfeed::format::parquet_table {

using arrow::Type;

std::optional<DType> number_dtype(const arrow::DataType& type) {
  if (type.id() == Type::BOOL) return std::nullopt;
  if (type.id() == Type::HALF_FLOAT) return DType::kF32;
  return matrix::dtype_of_arrow(type);
}

bool holds_times(const arrow::DataType& type) { return arrow::is_temporal(type.id()); }

bool holds_texts(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::STRING:
    case Type::LARGE_STRING:
    case Type::STRING_VIEW:
      return true;
    case Type::DICTIONARY:
      return holds_texts(*static_cast<const arrow::DictionaryType&>(type).value_type());
    default:
      return false;
  }
}

std::shared_ptr<arrow::DataType> item_type(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::LIST:
    case Type::LARGE_LIST:
    case Type::FIXED_SIZE_LIST:
      return type.field(0)->type();
    default:
      return nullptr;
  }
}

bool holds_gene_lists(const arrow::DataType& type) {
  const auto items = item_type(type);
  return items && (arrow::is_integer(items->id()) || holds_texts(*items));
}

bool holds_value_lists(const arrow::DataType& type) {
  const auto items = item_type(type);
  return items && holds_numbers(*items);
}

bool names_cells(const arrow::DataType& type) {
  return holds_texts(type) || arrow::is_integer(type.id());
}

std::shared_ptr<arrow::DataType> obs_type(const arrow::DataType& type) {
  if (type.id() == Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryType&>(type);
    const auto values = dictionary.value_type()->id() == Type::DICTIONARY
                            ? nullptr
                            : obs_type(*dictionary.value_type());
    return values ? arrow::dictionary(arrow::int32(), values, dictionary.ordered()) : nullptr;
  }
  if (holds_texts(type)) return arrow::utf8();
  if (type.id() == Type::NA) return arrow::null();
  if (const auto dtype = number_dtype(type); !dtype && type.id() != Type::BOOL) return nullptr;
  return type.id() == Type::HALF_FLOAT ? arrow::float32() : type.GetSharedPtr();
}

}  // namespace cellfeed::format::parquet_table
