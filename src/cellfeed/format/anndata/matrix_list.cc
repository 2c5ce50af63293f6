// list_matrices: what headers and attributes say, without opening what they describe.
#include "cellfeed/format/anndata/matrix_list.h"

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/frame_matrix.h"
#include "cellfeed/format/anndata/layers.h"

namespace cellfeed::format::anndata {
namespace {

void describe_values(const ArrayTraits& values, MatrixDescription& matrix) {
  matrix.filters = values.filters;
  matrix.chunk_shape = values.chunk_shape;
  matrix.value_dtype = values.value_dtype;
}

void describe_group(const StoredTree& file, const std::string& path, const StoredNode& group,
                    MatrixDescription& matrix) {
  const std::string encoding = sparse_encoding(group);
  matrix.encoding = encoding;
  if (is_obsm(path) && is_frame(group)) {
    const Dataframe frame(file, path, std::nullopt);
    matrix.shape = {frame.n_rows(), std::ssize(frame.columns())};
  }
  if (encoding != "csr_matrix" && encoding != "csc_matrix") return;
  matrix.encoding = encoding.substr(0, 3);
  if (group.text_attribute("h5sparse_format")) matrix.encoding += " of anndata 0.6";
  const auto [n_rows, n_cols] = read_matrix_shape(file, path);
  matrix.shape = {n_rows, n_cols};
  const auto data = file.find(path + "/data");
  if (!data || data->kind() == NodeKind::kGroup)
    throw_error(ErrorKind::kCorruptData, file.path(), "no dataset '{}/data'", path);
  const ArrayTraits values = data->traits();
  if (values.shape.size() == 1) matrix.nnz = values.shape[0];
  describe_values(values, matrix);
}

MatrixDescription describe_stored(const StoredTree& file, const std::string& stored) {
  MatrixDescription matrix;
  matrix.name = layer_name(stored);
  try {
    if (const auto field = file.find_field(stored)) {
      matrix.encoding = "dense, of anndata 0.6";
      matrix.shape = {field->n_rows, field->n_cols};
      describe_values(field->traits, matrix);
      return matrix;
    }
    const auto node = file.find(stored);
    if (!node) throw_error(ErrorKind::kCorruptData, file.path(), "it leads nowhere");
    if (node->kind() == NodeKind::kGroup) {
      describe_group(file, stored, *node, matrix);
      return matrix;
    }
    matrix.encoding = std::string("dense");
    const ArrayTraits values = node->traits();
    matrix.shape = values.shape;
    describe_values(values, matrix);
  } catch (const Error& error) {
    if (error.was_not_read()) throw;
    matrix.damage = error.what();
  }
  return matrix;
}

}  // namespace

std::vector<MatrixDescription> list_matrices(const StoredTree& file) {
  std::vector<MatrixDescription> matrices;
  for (const std::string& stored : list_matrix_paths(file))
    matrices.push_back(describe_stored(file, stored));
  return matrices;
}

}  // namespace cellfeed::format::anndata
