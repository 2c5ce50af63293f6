// The matrices of an AnnData file.
#include "cellfeed/format/anndata/layers.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "cellfeed/base/argument_text.h"
#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::anndata {
namespace {

constexpr char kRawPath[] = "raw/X";
constexpr char kLegacyRawPath[] = "raw.X";

void check_encoding(const StoredTree& file, const StoredNode& group, const std::string& layer) {
  const std::string encoding = sparse_encoding(group);
  if (encoding == "csr_matrix") return;
  throw_error(ErrorKind::kUnsupported, file.path(), "'{}' is not a CSR matrix: encoding-type '{}'",
              layer, encoding);
}

// anndata writes "null" where there is none.
bool is_matrix(const StoredTree& file, const std::string& name) {
  const auto object = file.find(name);
  return object && object->text_attribute("encoding-type") != "null";
}

// anndata 0.5 and 0.6 name it "raw.X".
std::string path_of_raw(const StoredTree& file) {
  return !is_matrix(file, kRawPath) && is_matrix(file, kLegacyRawPath) ? kLegacyRawPath : kRawPath;
}

std::vector<std::string> list_members(const StoredTree& file, const std::string& folder) {
  std::vector<std::string> names;
  const auto node = file.find(folder);
  if (!node || (node->kind() != NodeKind::kGroup && node->kind() != NodeKind::kTable)) return names;
  for (const std::string& name : node->member_names()) names.push_back(folder + "/" + name);
  return names;
}

std::vector<std::string> list_layers(const StoredTree& file) {
  std::vector<std::string> names;
  if (is_matrix(file, "X")) names.push_back("X");
  if (is_matrix(file, path_of_raw(file))) names.push_back(kRawPath);
  for (std::string& name : list_members(file, "layers")) names.push_back(std::move(name));
  return names;
}

// Arrays, sparse matrices and tables are read, and nothing else that obsm may hold.
std::string find_obsm(const StoredTree& file, const std::string& path) {
  if (file.find_field(path)) return path;
  const auto object = file.find(path);
  if (!object) {
    const std::vector<std::string> known = list_members(file, "obsm");
    throw_error(ErrorKind::kNoSuchKey, file.path(), "no '{}'{}", path,
                known.empty() ? "; the file has no obsm" : suggestion(path, known));
  }
  if (object->kind() == NodeKind::kArray || object->kind() == NodeKind::kTable) {
    const auto rank = object->shape().size();
    if (rank == 2) return path;
    throw_error(ErrorKind::kUnsupported, file.path(),
                "'{}' has {} dimensions; of obsm, arrays of 2 dimensions can be read", path, rank);
  }
  const std::string encoding = sparse_encoding(*object);
  if (encoding != "csr_matrix" && encoding != "csc_matrix" && encoding != "dataframe")
    throw_error(
        ErrorKind::kUnsupported, file.path(),
        "'{}' is stored as '{}'; of obsm, arrays, sparse matrices and tables of numbers can "
        "be read: write it as one of these",
        path, encoding);
  return path;
}

}  // namespace

std::string sparse_encoding(const StoredNode& group) {
  if (auto encoding = group.text_attribute("encoding-type")) return std::move(*encoding);
  const auto format = group.text_attribute("h5sparse_format");
  return format ? *format + "_matrix" : "(none)";
}

std::pair<std::int64_t, std::int64_t> read_matrix_shape(const StoredTree& file,
                                                        const std::string& layer) {
  const auto group = file.find(layer);
  if (!group) throw_error(ErrorKind::kNoSuchKey, file.path(), "no layer '{}'", layer);
  const char* name = group->has_attribute("shape") ? "shape" : "h5sparse_shape";
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

std::vector<std::string> places_of_layer(const std::string& layer) {
  if (layer == kRawPath) return {kRawPath, kLegacyRawPath};
  return {layer_path(layer)};
}

// Files of other programs that are of groups and arrays too.
void refuse_other_kinds(const StoredTree& file) {
  if (file.find("obs")) return;
  constexpr std::array<std::array<const char*, 4>, 3> kOthers{{
      {"row_attrs", "col_attrs", "loom file", "write it as .h5ad: scanpy.read_loom(path)"},
      {"barcode_idx", "umi", "list of molecules of Cell Ranger (molecule_info.h5)",
       "open the counts beside it, filtered_feature_bc_matrix.h5"},
      {"assays", "cell.names", "Seurat file (.h5Seurat)",
       "write it as .h5ad: SeuratDisk::Convert(path, dest = \"h5ad\")"},
  }};
  for (const auto& [one, other, kind, remedy] : kOthers)
    if (file.find(one) && file.find(other))
      throw_error(ErrorKind::kUnsupported, file.path(), "is a {}, no AnnData file; {}", kind,
                  remedy);
}

std::string find_layer(const StoredTree& file, const std::string& layer) {
  if (is_obsm(layer)) return find_obsm(file, layer);
  if (layer.empty()) throw_invalid("the name of a layer is empty; X is 'X'");
  for (const std::string& place : places_of_layer(layer))
    if (is_matrix(file, place)) return place;
  const std::vector<std::string> layers = list_layers(file);
  const std::string obs_alone = "obs alone is read with " + argument_of_open("layer", "none");
  if (layers.empty())
    throw_error(ErrorKind::kNoSuchKey, file.path(),
                "the {} holds no matrix (no 'X', 'raw/X' or 'layers'){}{}", file.kind_name(),
                file.find("obs") ? "; " : "", file.find("obs") ? obs_alone : "");
  if (layer == "X")
    throw_error(ErrorKind::kNoSuchKey, file.path(),
                "the file has no X; name one of its matrices instead: {}; {}",
                fmt::join(layers, ", "), obs_alone);
  std::vector<std::string> known = layers;
  if (!layer.starts_with("layers/"))
    for (std::string& path : known) path = layer_key(path);
  throw_error(ErrorKind::kNoSuchKey, file.path(), "no layer '{}'{}", layer,
              suggestion(layer, known));
}

std::vector<std::string> list_matrix_paths(const StoredTree& file) {
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

std::pair<std::int64_t, std::int64_t> read_csr_shape(const StoredTree& file,
                                                     const std::string& layer) {
  const auto group = file.find(layer);
  if (group) check_encoding(file, *group, layer);
  return read_matrix_shape(file, layer);
}

}  // namespace cellfeed::format::anndata
