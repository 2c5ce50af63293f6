#include "cellfeed/matrix/obs.h"

#include <arrow/api.h>

#include <map>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/matrix/arrow_result.h"
#include "cellfeed/matrix/one_array.h"

namespace cellfeed::matrix {
namespace {

std::string converting(const std::string& column) { return "convert obs column '" + column + "'"; }

DType fixed_dtype(const arrow::DataType& type, const std::string& name) {
  if (const auto dtype = dtype_of_arrow(type)) return *dtype;
  throw Error(ErrorKind::kUnsupported,
              fmt::format("an obs column of this type cannot be loaded with batches: '{}' is {}",
                          name, type.ToString()));
}

// Categories in sorted order, so that codes do not depend on which row came first.
template <typename StringArray>
std::shared_ptr<arrow::DictionaryArray> encode_strings(const StringArray& array,
                                                       const std::string& name) {
  const std::string what = converting(name);
  std::map<std::string_view, std::int32_t> codes;
  for (std::int64_t i = 0; i < array.length(); ++i)
    if (array.IsValid(i)) codes.emplace(array.GetView(i), 0);
  arrow::StringBuilder categories;
  std::int32_t next = 0;
  for (auto& [text, code] : codes) {
    code = next++;
    check_arrow(categories.Append(text), what);
  }
  arrow::Int32Builder builder;
  check_arrow(builder.Reserve(array.length()), what);
  for (std::int64_t i = 0; i < array.length(); ++i) {
    if (array.IsValid(i))
      builder.UnsafeAppend(codes.find(array.GetView(i))->second);
    else
      builder.UnsafeAppendNull();
  }
  return std::make_shared<arrow::DictionaryArray>(arrow::dictionary(arrow::int32(), arrow::utf8()),
                                                  check_arrow(builder.Finish(), what),
                                                  check_arrow(categories.Finish(), what));
}

struct OwnedValues {
  std::shared_ptr<arrow::Array> array;
  std::vector<std::uint8_t> bytes;
};

// Codes with -1 where Arrow marks the row as missing.
void fill_missing_codes(FixedColumn& column, const arrow::Array& codes) {
  if (codes.null_count() == 0) return;
  auto owned = std::make_shared<OwnedValues>();
  const std::size_t width = dtype_bytes(column.dtype);
  owned->bytes.resize(width * static_cast<std::size_t>(column.length));
  dispatch_dtype(column.dtype, [&](auto zero) {
    using T = decltype(zero);
    auto* out = reinterpret_cast<T*>(owned->bytes.data());
    const T* in = static_cast<const T*>(column.values);
    for (std::int64_t i = 0; i < column.length; ++i)
      out[i] = codes.IsNull(i) ? static_cast<T>(-1) : in[i];
  });
  column.values = owned->bytes.data();
  column.owner = owned;
}

}  // namespace

std::optional<DType> dtype_of_arrow(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::BOOL:
      return DType::kBool;
    case arrow::Type::UINT8:
      return DType::kU8;
    case arrow::Type::INT8:
      return DType::kI8;
    case arrow::Type::UINT16:
      return DType::kU16;
    case arrow::Type::INT16:
      return DType::kI16;
    case arrow::Type::UINT32:
      return DType::kU32;
    case arrow::Type::INT32:
      return DType::kI32;
    case arrow::Type::UINT64:
      return DType::kU64;
    case arrow::Type::INT64:
      return DType::kI64;
    case arrow::Type::FLOAT:
      return DType::kF32;
    case arrow::Type::DOUBLE:
      return DType::kF64;
    default:
      return std::nullopt;
  }
}

FixedColumn make_fixed_column(const std::string& name, const arrow::ChunkedArray& chunked) {
  const std::string what = converting(name);
  std::shared_ptr<arrow::Array> array = check_arrow(one_array(chunked), what);
  FixedColumn column;
  column.is_text =
      array->type_id() == arrow::Type::STRING || array->type_id() == arrow::Type::LARGE_STRING;
  if (array->type_id() == arrow::Type::STRING)
    array = encode_strings(static_cast<const arrow::StringArray&>(*array), name);
  else if (array->type_id() == arrow::Type::LARGE_STRING)
    array = encode_strings(static_cast<const arrow::LargeStringArray&>(*array), name);
  else if (array->type_id() == arrow::Type::NA)
    array = check_arrow(
        arrow::MakeArrayOfNull(arrow::dictionary(arrow::int8(), arrow::utf8()), array->length()),
        what);

  column.name = name;
  column.length = array->length();
  std::shared_ptr<arrow::Array> fixed = array;
  if (array->type_id() == arrow::Type::DICTIONARY) {
    const auto& dictionary = static_cast<const arrow::DictionaryArray&>(*array);
    column.is_categorical = true;
    column.ordered = static_cast<const arrow::DictionaryType&>(*array->type()).ordered();
    column.categories = dictionary.dictionary();
    fixed = dictionary.indices();
  }
  column.dtype = fixed_dtype(*fixed->type(), name);
  if (column.dtype == DType::kBool) {
    auto owned = std::make_shared<OwnedValues>();
    const auto& bools = static_cast<const arrow::BooleanArray&>(*fixed);
    owned->array = fixed;
    owned->bytes.resize(static_cast<std::size_t>(column.length));
    for (std::int64_t i = 0; i < column.length; ++i) owned->bytes[i] = bools.Value(i) ? 1 : 0;
    column.values = owned->bytes.data();
    column.owner = owned;
  } else {
    column.values = fixed->data()->buffers[1]->data() +
                    fixed->offset() * static_cast<std::int64_t>(dtype_bytes(column.dtype));
    column.owner = fixed;
  }
  if (column.is_categorical) {
    fill_missing_codes(column, *fixed);
  } else if (fixed->null_count() > 0) {
    // One bitmap that starts at bit 0, whatever slice the array was.
    auto owned = std::make_shared<OwnedValues>();
    owned->array = std::static_pointer_cast<arrow::Array>(fixed);
    owned->bytes.assign(static_cast<std::size_t>(column.length + 7) / 8, 0);
    for (std::int64_t i = 0; i < column.length; ++i)
      if (fixed->IsValid(i)) owned->bytes[i / 8] |= static_cast<std::uint8_t>(1u << (i % 8));
    column.validity = owned->bytes.data();
    column.owner =
        std::make_shared<std::pair<std::shared_ptr<const void>, std::shared_ptr<const void>>>(
            column.owner, owned);
  }
  return column;
}

std::vector<std::string> category_texts(const FixedColumn& column) {
  std::vector<std::string> texts;
  if (!column.categories) return texts;
  const auto& categories = *column.categories;
  texts.reserve(static_cast<std::size_t>(categories.length()));
  const std::string what = converting(column.name);
  for (std::int64_t i = 0; i < categories.length(); ++i)
    texts.push_back(check_arrow(categories.GetScalar(i), what)->ToString());
  return texts;
}

}  // namespace cellfeed::matrix
