// CsrMatrix: opening and checking one CSR group.
#include "cellfeed/format/h5ad/csr_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/format/h5ad/csr_rows.h"

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

std::pair<std::int64_t, std::int64_t> read_csr_shape(const H5File& file, const std::string& layer) {
  const auto group = file.hdf5().find(layer);
  if (group) check_encoding(file, *group, layer);
  return read_matrix_shape(file, layer);
}

bool is_10x_file(const H5File& file) {
  for (const hdf5::Link& link : file.hdf5().root().members()) {
    if (link.kind != hdf5::LinkKind::kHard) continue;
    const auto barcodes = file.hdf5().find(link.name + "/barcodes");
    if (barcodes && barcodes->kind() == hdf5::ObjectKind::kDataset) return true;
  }
  return false;
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

std::vector<std::string> list_layers(const H5File& file) {
  std::vector<std::string> names;
  if (is_matrix(file, "X")) names.push_back("X");
  if (is_matrix(file, path_of_raw(file))) names.push_back(kRawPath);
  const auto layers = file.hdf5().find("layers");
  if (layers && layers->kind() == hdf5::ObjectKind::kGroup)
    for (const std::string& name : layers->group().member_names())
      names.push_back("layers/" + name);
  return names;
}

}  // namespace

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
  std::string name = layer;
  if (layer == "raw" || layer == kRawPath || layer == kLegacyRawPath)
    name = path_of_raw(file);
  else if (layer != "X" && !layer.starts_with("layers/"))
    name = "layers/" + layer;
  if (is_matrix(file, name)) return name;
  if (is_10x_file(file))
    throw Error(ErrorKind::kUnsupported,
                "10x .h5 files are not yet readable in this version; convert with "
                "scanpy.read_10x_h5(path).write_h5ad(...)",
                file.path());
  const std::vector<std::string> layers = list_layers(file);
  if (layers.empty())
    throw Error(ErrorKind::kNoSuchKey,
                "the HDF5 file holds no matrix (no 'X', 'raw/X' or 'layers')", file.path());
  if (layer == "X")
    throw_error(ErrorKind::kNoSuchKey, file.path(),
                "the file has no X; name one of its matrices with layer: {}",
                fmt::join(layers, ", "));
  // Layers are named with and without their folder.
  std::vector<std::string> known = layers;
  for (std::string& known_name : known)
    if (known_name.starts_with("layers/") && !layer.starts_with("layers/"))
      known_name = known_name.substr(7);
  throw_error(ErrorKind::kNoSuchKey, file.path(), "no layer '{}'{}", layer,
              suggestion(layer, known));
}

std::string layer_name(const std::string& path) { return path == kLegacyRawPath ? kRawPath : path; }

std::string var_path(const std::string& path) {
  if (path == kRawPath) return "raw/var";
  return path == kLegacyRawPath ? "raw.var" : "var";
}

CsrMatrix::CsrMatrix(const H5File& file, std::string layer)
    : file_(file),
      layer_(std::move(layer)),
      n_rows_(read_csr_shape(file, layer_).first),
      n_cols_(read_csr_shape(file, layer_).second),
      data_(file, layer_ + "/data", 1, 0, file.row_bytes()),
      indices_(file, layer_ + "/indices", 1, 1, file.row_bytes()),
      indptr_(file, layer_ + "/indptr", 1, 2, file.bytes()),
      decoder_(file.path(), layer_, n_cols_, indices_.number(), data_.number()) {
  if (indices_.length() != data_.length())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data and indices of '{}' differ in length: {}, {}", layer_, data_.length(),
                indices_.length());
  if (indptr_.length() != n_rows_ + 1)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must have one entry more than rows: {} entries, {} rows", layer_,
                indptr_.length(), n_rows_);
  const bool is_mappable = indptr_.contiguous() != nullptr && indptr_.number().is_native() &&
                           (indptr_.dtype() == DType::kI32 || indptr_.dtype() == DType::kI64);
  if (!is_mappable) offsets_ = indptr_.read_integers();
  check_offsets();
}

// All of them where they were read anyway; the ends only where they are mapped, since opening must
// not read a table as long as the file has cells: row_entries checks each row it hands out.
void CsrMatrix::check_offsets() const {
  for (std::int64_t row = 0; row + 1 < std::ssize(offsets_); ++row)
    if (offsets_[row] > offsets_[row + 1]) throw_bad_offsets(row, offsets_[row], offsets_[row + 1]);
  if (offset_at(0) != 0 || offset_at(n_rows_) != nnz())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must start at 0 and end at the number of entries: starts at {}, "
                "ends at {}, entries {}",
                layer_, offset_at(0), offset_at(n_rows_), nnz());
}

std::int64_t CsrMatrix::offset_at(std::int64_t i) const {
  if (!offsets_.empty()) return offsets_[i];
  if (indptr_.dtype() == DType::kI32) {
    std::int32_t offset;
    std::memcpy(&offset, indptr_.contiguous() + i * 4, sizeof offset);
    return offset;
  }
  std::int64_t offset;
  std::memcpy(&offset, indptr_.contiguous() + i * 8, sizeof offset);
  return offset;
}

void CsrMatrix::describe(StoreInfo& info) const {
  info.nnz = nnz();
  if (!data_.is_compressed() || n_rows_ == 0) return;
  const std::int64_t row_entries = std::max<std::int64_t>(1, nnz() / n_rows_);
  info.rows_per_chunk = std::max<std::int64_t>(1, data_.chunk_elements() / row_entries);
}

std::unique_ptr<FetchedRows> CsrMatrix::begin(const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext&) const {
  return begin_csr_rows(*this, cache, rows);
}

ReadPlan CsrMatrix::plan(const chunked::ChunkCache& cache,
                         std::span<const std::int64_t> rows) const {
  return plan_csr_rows(*this, cache, rows);
}

chunked::EntryRange CsrMatrix::row_entries(std::int64_t row) const {
  if (row < 0 || row >= n_rows_)
    throw_error(ErrorKind::kOutOfRange, file_.path(), "row out of range: {}, rows {}", row,
                n_rows_);
  const chunked::EntryRange range{offset_at(row), offset_at(row + 1)};
  if (range.begin < 0 || range.begin > range.end || range.end > nnz())
    throw_bad_offsets(row, range.begin, range.end);
  if (range.end - range.begin > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a row of '{}' has more than 2^31-1 entries: row {}, entries {}", layer_, row,
                range.end - range.begin);
  return range;
}

void CsrMatrix::throw_bad_offsets(std::int64_t row, std::int64_t begin, std::int64_t end) const {
  throw_error(ErrorKind::kCorruptData, file_.path(),
              "indptr of '{}' must not decrease nor pass the number of entries: row {} goes from "
              "{} to {}, entries {}",
              layer_, row, begin, end, nnz());
}

}  // namespace cellfeed::format::h5ad
