// The matrices of an .h5ad file.
#include "cellfeed/format/h5ad/layers.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::h5ad {
namespace {

constexpr char kRawPath[] = "raw/X";
constexpr char kLegacyRawPath[] = "raw.X";

void check_encoding(const H5File& file, const hdf5::Object& group, const std::string& layer) {
  const std::string encoding = sparse_encoding(group);
  if (encoding == "csr_matrix") return;
  throw_error(ErrorKind::kUnsupported, file.path(), "'{}' is not a CSR matrix: encoding-type '{}'",
              layer, encoding);
}

// anndata writes "null" where there is none.
bool is_matrix(const H5File& file, const std::string& name) {
  const auto object = file.hdf5().find(name);
  return object && object->text_attribute("encoding-type") != "null";
}

// anndata 0.5 and 0.6 name it "raw.X".
std::string path_of_raw(const H5File& file) {
  return !is_matrix(file, kRawPath) && is_matrix(file, kLegacyRawPath) ? kLegacyRawPath : kRawPath;
}

std::vector<std::string> list_members(const H5File& file, const std::string& folder) {
  std::vector<std::string> names;
  const auto group = file.hdf5().find(folder);
  if (!group) return names;
  if (group->kind() == hdf5::ObjectKind::kGroup) {
    for (const std::string& name : group->group().member_names())
      names.push_back(folder + "/" + name);
  } else if (group->kind() == hdf5::ObjectKind::kDataset) {
    const hdf5::Dataset table = group->dataset();
    for (const auto& member : table.datatype().members) names.push_back(folder + "/" + member.name);
  }
  return names;
}

std::vector<std::string> list_layers(const H5File& file) {
  std::vector<std::string> names;
  if (is_matrix(file, "X")) names.push_back("X");
  if (is_matrix(file, path_of_raw(file))) names.push_back(kRawPath);
  for (std::string& name : list_members(file, "layers")) names.push_back(std::move(name));
  return names;
}

// Arrays and sparse matrices are read, and nothing else that obsm may hold.
std::string find_obsm(const H5File& file, const std::string& path) {
  if (find_obsm_field(file, path)) return path;
  const auto object = file.hdf5().find(path);
  if (!object) {
    const std::vector<std::string> known = list_members(file, "obsm");
    throw_error(ErrorKind::kNoSuchKey, file.path(), "no '{}'{}", path,
                known.empty() ? "; the file has no obsm" : suggestion(path, known));
  }
  if (object->kind() == hdf5::ObjectKind::kDataset) {
    const auto rank = object->dataset().shape().size();
    if (rank == 2) return path;
    throw_error(ErrorKind::kUnsupported, file.path(),
                "'{}' has {} dimensions; of obsm, arrays of 2 dimensions can be read", path, rank);
  }
  const std::string encoding = sparse_encoding(*object);
  if (encoding != "csr_matrix" && encoding != "csc_matrix")
    throw_error(ErrorKind::kUnsupported, file.path(),
                "'{}' is stored as '{}'; of obsm, arrays and sparse matrices can be read: write it "
                "as an array (adata.obsm[...] = frame.to_numpy())",
                path, encoding);
  return path;
}

}  // namespace

std::optional<ObsmField> find_obsm_field(const H5File& file, const std::string& path) {
  if (!is_obsm(path)) return std::nullopt;
  const auto object = file.hdf5().find("obsm");
  if (!object || object->kind() != hdf5::ObjectKind::kDataset) return std::nullopt;
  const hdf5::Dataset table = object->dataset();
  const auto& members = table.datatype().members;
  const auto member = std::find_if(members.begin(), members.end(),
                                   [&](const auto& m) { return "obsm/" + m.name == path; });
  if (member == members.end()) return std::nullopt;
  ObsmField field{.table = table, .offset = member->offset, .number = *member->type};
  if (member->type->type_class == hdf5::TypeClass::kArray) {
    if (member->type->array_shape.size() != 1)
      throw_error(ErrorKind::kUnsupported, file.path(),
                  "'{}' has {} dimensions; of obsm, arrays of 2 dimensions can be read", path,
                  1 + member->type->array_shape.size());
    field.n_cols = member->type->array_shape[0];
    field.number = *member->type->base;
  }
  const std::uint64_t record_bytes = table.datatype().size;
  if (field.number.size == 0 || field.offset % field.number.size != 0 ||
      record_bytes % field.number.size != 0)
    throw_error(ErrorKind::kUnsupported, file.path(),
                "'{}' lies at byte {} of records of {} bytes, numbers of {} bytes cannot be read "
                "there: write the file again with a newer anndata",
                path, field.offset, record_bytes, field.number.size);
  return field;
}

std::string sparse_encoding(const hdf5::Object& group) {
  if (auto encoding = group.text_attribute("encoding-type")) return std::move(*encoding);
  const auto format = group.text_attribute("h5sparse_format");
  return format ? *format + "_matrix" : "(none)";
}

std::pair<std::int64_t, std::int64_t> read_matrix_shape(const H5File& file,
                                                        const std::string& layer) {
  const auto group = file.hdf5().find(layer);
  if (!group) throw_error(ErrorKind::kNoSuchKey, file.path(), "no layer '{}'", layer);
  const char* name = group->attribute("shape") == nullptr ? "h5sparse_shape" : "shape";
  const auto shape = group->integers_attribute(name);
  if (!shape)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "the attribute 'shape' is missing or not of integers: '{}'", layer);
  if (shape->size() != 2 || (*shape)[0] < 0 || (*shape)[1] < 0)
    throw_error(ErrorKind::kCorruptData, file.path(),
                "the attribute '{}' must be two non-negative numbers: '{}': {}", name, layer,
                fmt::join(*shape, ", "));
  return {(*shape)[0], (*shape)[1]};
}

std::string find_layer(const H5File& file, const std::string& layer) {
  if (is_obsm(layer)) return find_obsm(file, layer);
  if (layer.empty()) throw_invalid("the name of a layer is empty; X is 'X'");
  std::string name = layer;
  if (layer == "raw" || layer == kRawPath || layer == kLegacyRawPath)
    name = path_of_raw(file);
  else if (layer != "X" && !layer.starts_with("layers/"))
    name = "layers/" + layer;
  if (is_matrix(file, name)) return name;
  const std::vector<std::string> layers = list_layers(file);
  constexpr const char* kObsAlone = "for obs alone: layer=None, --layer none";
  if (layers.empty())
    throw_error(ErrorKind::kNoSuchKey, file.path(),
                "the HDF5 file holds no matrix (no 'X', 'raw/X' or 'layers'){}{}",
                file.hdf5().find("obs") ? "; " : "", file.hdf5().find("obs") ? kObsAlone : "");
  if (layer == "X")
    throw_error(ErrorKind::kNoSuchKey, file.path(),
                "the file has no X; name one of its matrices with layer: {}; {}",
                fmt::join(layers, ", "), kObsAlone);
  // Layers are named with and without their folder.
  std::vector<std::string> known = layers;
  for (std::string& known_name : known)
    if (known_name.starts_with("layers/") && !layer.starts_with("layers/"))
      known_name = known_name.substr(7);
  throw_error(ErrorKind::kNoSuchKey, file.path(), "no layer '{}'{}", layer,
              suggestion(layer, known));
}

std::vector<std::string> list_matrix_paths(const H5File& file) {
  std::vector<std::string> paths;
  for (const std::string& path : {std::string("X"), path_of_raw(file)})
    if (is_matrix(file, path)) paths.push_back(path);
  for (const char* folder : {"layers", "obsm"})
    for (std::string& name : list_members(file, folder)) paths.push_back(std::move(name));
  return paths;
}

std::string layer_name(const std::string& path) { return path == kLegacyRawPath ? kRawPath : path; }

std::optional<std::string> var_path(const std::string& path) {
  if (is_obsm(path)) return std::nullopt;
  if (path == kRawPath) return "raw/var";
  return path == kLegacyRawPath ? "raw.var" : "var";
}

std::pair<std::int64_t, std::int64_t> read_csr_shape(const H5File& file, const std::string& layer) {
  const auto group = file.hdf5().find(layer);
  if (group) check_encoding(file, *group, layer);
  return read_matrix_shape(file, layer);
}

}  // namespace cellfeed::format::h5ad
