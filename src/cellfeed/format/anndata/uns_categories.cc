// Categories of anndata 0.5 and 0.6.
#include "cellfeed/format/anndata/uns_categories.h"

#include <arrow/api.h>

#include <utility>

namespace cellfeed::format::anndata {
namespace {

template <typename ArrowType>
bool are_below(const arrow::Array& array, std::uint64_t limit) {
  const auto& values = static_cast<const arrow::NumericArray<ArrowType>&>(array);
  for (std::int64_t i = 0; i < values.length(); ++i) {
    const auto value = values.Value(i);
    if (value > 0 && static_cast<std::uint64_t>(value) >= limit) return false;
    if (value == 0 && limit == 0) return false;
  }
  return true;
}

// False for what holds no integers.
bool are_codes(const arrow::Array& array, std::uint64_t n_categories) {
  switch (array.type_id()) {
    case arrow::Type::INT8:
      return are_below<arrow::Int8Type>(array, n_categories);
    case arrow::Type::INT16:
      return are_below<arrow::Int16Type>(array, n_categories);
    case arrow::Type::INT32:
      return are_below<arrow::Int32Type>(array, n_categories);
    case arrow::Type::INT64:
      return are_below<arrow::Int64Type>(array, n_categories);
    case arrow::Type::UINT8:
      return are_below<arrow::UInt8Type>(array, n_categories);
    case arrow::Type::UINT16:
      return are_below<arrow::UInt16Type>(array, n_categories);
    case arrow::Type::UINT32:
      return are_below<arrow::UInt32Type>(array, n_categories);
    case arrow::Type::UINT64:
      return are_below<arrow::UInt64Type>(array, n_categories);
    default:
      return false;
  }
}

}  // namespace

std::string path_in_uns(const std::string& name) { return "uns/" + name + "_categories"; }

std::unique_ptr<StoredNode> categories_in_uns(const StoredTree& file, const std::string& name,
                                              const ColumnSource& column) {
  if (!column.holds_integers()) return nullptr;
  auto node = file.find(path_in_uns(name));
  if (!node || (node->kind() != NodeKind::kArray && node->kind() != NodeKind::kTable))
    return nullptr;
  std::uint64_t n_categories = 1;
  for (const std::uint64_t length : node->shape()) n_categories *= length;
  return are_codes(*column.read_all(), n_categories) ? std::move(node) : nullptr;
}

}  // namespace cellfeed::format::anndata
