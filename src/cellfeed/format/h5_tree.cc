// What an HDF5 file holds, as any StoredTree says it.
#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5_array.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5_node.h"

namespace cellfeed::format {
namespace {

struct FieldOfTable {
  hdf5::Dataset table;
  std::uint64_t offset = 0;  // in a record
  std::uint64_t n_cols = 1;
  hdf5::Datatype number;  // of a column
};

std::optional<hdf5::Dataset> find_table(const hdf5::File& file, const std::string& path) {
  const auto object = file.find(path.substr(0, path.find('/')));
  if (!object || object->kind() != hdf5::ObjectKind::kDataset) return std::nullopt;
  return object->dataset();
}

void check_place(const hdf5::File& file, const std::string& path, const FieldOfTable& field) {
  const std::uint64_t record_bytes = field.table.datatype().size;
  if (field.number.size != 0 && field.offset % field.number.size == 0 &&
      record_bytes % field.number.size == 0)
    return;
  throw_error(ErrorKind::kUnsupported, file.path(),
              "'{}' lies at byte {} of records of {} bytes, numbers of {} bytes cannot be read "
              "there: write the file again with a newer anndata",
              path, field.offset, record_bytes, field.number.size);
}

// path: "obsm/X_pca".
std::optional<FieldOfTable> find_field_of_table(const hdf5::File& file, const std::string& path) {
  const auto table = find_table(file, path);
  if (!table) return std::nullopt;
  const std::string name = path.substr(path.find('/') + 1);
  const auto& members = table->datatype().members;
  const auto member = std::ranges::find(members, name, &hdf5::Datatype::Member::name);
  if (member == members.end()) return std::nullopt;
  FieldOfTable field{.table = *table, .offset = member->offset, .number = *member->type};
  if (member->type->type_class == hdf5::TypeClass::kArray) {
    if (member->type->array_shape.size() != 1)
      throw_error(ErrorKind::kUnsupported, file.path(),
                  "'{}' has {} dimensions; of obsm, arrays of 2 dimensions can be read", path,
                  1 + member->type->array_shape.size());
    field.n_cols = member->type->array_shape[0];
    field.number = *member->type->base;
  }
  check_place(file, path, field);
  return field;
}

}  // namespace

std::unique_ptr<StoredNode> H5File::find(const std::string& path) const {
  auto object = hdf5_->find(path);
  return object ? std::make_unique<H5Node>(*hdf5_, *std::move(object)) : nullptr;
}

std::unique_ptr<StoredArray> H5File::open_array(const std::string& path,
                                                const ArrayUse& use) const {
  return std::make_unique<H5Array>(
      *this, path, use.rank, use.key, use.is_of_rows ? row_bytes() : bytes(),
      use.missing == MissingChunks::kDamage ? hdf5::Unwritten::kDamage : hdf5::Unwritten::kFilled);
}

std::optional<StoredField> H5File::find_field(const std::string& path) const {
  if (!path.starts_with("obsm/")) return std::nullopt;
  const auto field = find_field_of_table(*hdf5_, path);
  if (!field) return std::nullopt;
  return StoredField{.n_rows = static_cast<std::int64_t>(field->table.space().n_elements),
                     .n_cols = static_cast<std::int64_t>(field->n_cols),
                     .first_col = static_cast<std::int64_t>(field->offset / field->number.size),
                     .traits = traits_of(field->table, field->number, path)};
}

std::unique_ptr<StoredArray> H5File::open_field(const std::string& path) const {
  const auto field = find_field_of_table(*hdf5_, path);
  return std::make_unique<H5Array>(*this, path, field->table, field->number, 0, row_bytes());
}

}  // namespace cellfeed::format
