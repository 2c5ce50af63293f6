// list_matrices: what headers and attributes say, without opening what they describe.
#include "cellfeed/format/matrix_list.h"

#include <array>
#include <span>
#include <string_view>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/layers.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/hdf5/filter_pipeline.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::format {
namespace {

std::string dtype_text(const hdf5::Datatype& type, const std::string& path,
                       const std::string& name) {
  const StoredNumber number = stored_number(type, path, name);
  const bool is_half = number.dtype == DType::kF32 && number.bytes == 2;
  std::string text(is_half ? "float16" : dtype_name(number.dtype));
  return number.is_big_endian && number.bytes > 1 ? text + " (big endian)" : text;
}

std::string filters_text(const hdf5::Dataset& dataset) {
  std::string text;
  for (const hdf5::FilterDescription& filter : dataset.filters()) {
    const std::string_view name = hdf5::filter_name(filter.id);
    if (!text.empty()) text.push_back('+');
    text += name.empty() ? fmt::format("filter {}", filter.id) : std::string(name);
  }
  return text.empty() ? "none" : text;
}

void describe_values(const hdf5::Dataset& values, const hdf5::Datatype& type,
                     const std::string& path, MatrixDescription& matrix) {
  matrix.filters = filters_text(values);
  if (const auto* chunked = std::get_if<hdf5::ChunkedLayout>(&values.layout()))
    matrix.chunk_shape.assign(chunked->chunk_shape.begin(), chunked->chunk_shape.end());
  matrix.value_dtype = dtype_text(type, path, matrix.name);
}

void describe_group(const H5File& file, const hdf5::Object& object, const std::string& stored,
                    MatrixDescription& matrix) {
  const std::string encoding = h5ad::sparse_encoding(object);
  matrix.encoding = encoding;
  if (encoding != "csr_matrix" && encoding != "csc_matrix") return;
  matrix.encoding = encoding.substr(0, 3);
  if (object.text_attribute("h5sparse_format")) matrix.encoding += " of anndata 0.6";
  const auto [n_rows, n_cols] = h5ad::read_matrix_shape(file, stored);
  matrix.shape = {n_rows, n_cols};
  const auto data = file.hdf5().find(stored + "/data");
  if (!data) throw_error(ErrorKind::kCorruptData, file.path(), "no dataset '{}/data'", stored);
  const hdf5::Dataset values = data->dataset();
  if (values.shape().size() == 1) matrix.nnz = static_cast<std::int64_t>(values.shape()[0]);
  describe_values(values, values.datatype(), file.path(), matrix);
}

MatrixDescription describe_stored(const H5File& file, const std::string& stored) {
  MatrixDescription matrix;
  matrix.name = h5ad::layer_name(stored);
  try {
    if (const auto field = h5ad::find_obsm_field(file, stored)) {
      matrix.encoding = "dense, of anndata 0.6";
      matrix.shape = {static_cast<std::int64_t>(field->table.space().n_elements),
                      static_cast<std::int64_t>(field->n_cols)};
      describe_values(field->table, field->number, file.path(), matrix);
      return matrix;
    }
    const auto object = file.hdf5().find(stored);
    if (!object) throw_error(ErrorKind::kCorruptData, file.path(), "it leads nowhere");
    if (object->kind() != hdf5::ObjectKind::kDataset) {
      describe_group(file, *object, stored, matrix);
      return matrix;
    }
    matrix.encoding = std::string("dense");
    const hdf5::Dataset dataset = object->dataset();
    matrix.shape.assign(dataset.shape().begin(), dataset.shape().end());
    describe_values(dataset, dataset.datatype(), file.path(), matrix);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kIo) throw;
    matrix.damage = error.what();
  }
  return matrix;
}

bool is_hdf5(const std::string& path) {
  if (!io::status_of(path).is_file()) return false;
  const auto file = io::open_file(path, {.access = io::FileAccess::kPread, .threads = 1});
  constexpr std::string_view kSignature = "\x89HDF\r\n\x1a\n";
  std::array<char, 8> start{};
  // A user block may come first, of 512 bytes or a power of two more.
  for (std::int64_t at = 0; at + std::ssize(start) <= file->size(); at = at == 0 ? 512 : 2 * at) {
    file->read(at, std::as_writable_bytes(std::span(start)));
    if (std::string_view(start.data(), start.size()) == kSignature) return true;
  }
  return false;
}

}  // namespace

std::vector<MatrixDescription> list_matrices(const std::string& path,
                                             const std::string& allow_external) {
  if (!is_hdf5(path)) return {};
  const H5File file(path, false, allow_external);
  std::vector<MatrixDescription> matrices;
  for (const std::string& stored : h5ad::list_matrix_paths(file))
    matrices.push_back(describe_stored(file, stored));
  return matrices;
}

}  // namespace cellfeed::format
