// Categories of anndata 0.5 to 0.7.
#include "cellfeed/format/h5ad/legacy_categories.h"

#include <arrow/api.h>

#include <cstring>

#include "cellfeed/base/error.h"

namespace cellfeed::format::h5ad {
namespace {

// The address that a reference holds.
std::optional<hdf5::Address> referred_address(const hdf5::Attribute& attribute) {
  const auto value = attribute.value.view();
  if (!attribute.type.is_object_reference || attribute.space.n_elements != 1 || value.size() > 8)
    return std::nullopt;
  hdf5::Address address = 0;
  std::memcpy(&address, value.data(), value.size());
  return address;
}

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

std::optional<hdf5::Dataset> referred_categories(const hdf5::File& file, const hdf5::Dataset& codes,
                                                 const std::string& group) {
  const hdf5::Attribute* attribute = codes.attribute("categories");
  if (attribute == nullptr) return std::nullopt;
  const auto address = referred_address(*attribute);
  const auto is_referred = [&](const std::optional<hdf5::Object>& object) {
    return object && object->kind() == hdf5::ObjectKind::kDataset && object->address() == address;
  };
  // Under the name of the column, unless somebody moved it.
  const std::string& path = codes.path();
  const auto usual = file.find(group + path.substr(path.rfind('/')));
  if (is_referred(usual)) return usual->dataset();
  const auto kept = file.find(group);
  if (kept && kept->kind() == hdf5::ObjectKind::kGroup)
    for (const std::string& name : kept->group().member_names())
      if (const auto member = kept->group().find(name); is_referred(member))
        return member->dataset();
  throw_error(ErrorKind::kUnsupported, file.path(),
              "the categories of this column are kept in a way that is not readable; write the "
              "file again with anndata 0.8 or later: '{}'",
              codes.path());
}

std::string path_in_uns(const std::string& name) { return "uns/" + name + "_categories"; }

std::optional<hdf5::Dataset> categories_in_uns(const hdf5::File& file, const std::string& name,
                                               const StoredColumn& column) {
  if (column.type.type_class != hdf5::TypeClass::kFixedPoint) return std::nullopt;
  const auto object = file.find(path_in_uns(name));
  if (!object || object->kind() != hdf5::ObjectKind::kDataset) return std::nullopt;
  const hdf5::Dataset categories = object->dataset();
  const auto codes = read_all_values(column);
  if (!are_codes(*codes, categories.space().n_elements)) return std::nullopt;
  return categories;
}

}  // namespace cellfeed::format::h5ad
