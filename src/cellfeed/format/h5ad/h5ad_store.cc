// H5adStore: a CSR matrix, obs and var of one file.
#include "cellfeed/format/h5ad/h5ad_store.h"

#include <arrow/api.h>
#include <xxhash.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/base/nearest_name.h"
#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/h5ad/content_fingerprint.h"
#include "cellfeed/format/h5ad/csr_matrix.h"
#include "cellfeed/format/h5ad/csr_rows.h"
#include "cellfeed/format/h5ad/dataframe.h"
#include "cellfeed/format/h5ad/h5_file.h"

namespace cellfeed::format::h5ad {
namespace {

class H5adStore final : public RowStore {
 public:
  H5adStore(std::unique_ptr<H5File> file, const std::string& layer, std::int64_t cache_bytes);

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return genes_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext&) const override {
    file_->require_unchanged();
    return begin_csr_rows(matrix_, cache_, rows);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return plan_csr_rows(matrix_, cache_, rows);
  }
  void set_cache_bytes(std::int64_t bytes) const override { cache_.set_capacity(bytes); }
  void release_pages() const override { file_->release_pages(); }
  std::vector<std::string> obs_names() const override { return obs_.columns(); }
  matrix::FixedColumn obs_column(const std::string& name) const override;
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override;
  std::shared_ptr<arrow::Table> read_var() const override { return var_.read(0, info_.n_cols); }
  std::uint64_t fingerprint() const override;

 private:
  void describe(const std::string& layer);
  void read_genes();

  std::unique_ptr<H5File> file_;
  const std::string path_of_layer_;
  CsrMatrix matrix_;
  chunked::ChunkCache cache_;
  Dataframe obs_;
  Dataframe var_;
  StoreInfo info_;
  matrix::GeneAxis genes_;
  mutable std::atomic<std::uint64_t> fingerprint_{0};  // 0: not asked for yet
};

std::vector<chunked::CachedArray> layouts_of(const CsrMatrix& matrix) {
  std::vector<chunked::CachedArray> layouts(2);
  for (const StoredArray* array : {&matrix.data(), &matrix.indices()})
    if (array->is_compressed())
      layouts[static_cast<std::size_t>(array->key())] = {array->n_chunks(), array->chunk_bytes()};
  return layouts;
}

H5adStore::H5adStore(std::unique_ptr<H5File> file, const std::string& layer,
                     std::int64_t cache_bytes)
    : file_(std::move(file)),
      path_of_layer_(layer),
      matrix_(*file_, layer),
      cache_(cache_bytes, layouts_of(matrix_)),
      obs_(file_->hdf5(), "obs", matrix_.n_rows()),
      var_(file_->hdf5(), var_path(layer), matrix_.n_cols()) {
  describe(layer);
  read_genes();
}

void H5adStore::describe(const std::string& layer) {
  const StoredArray& data = matrix_.data();
  info_ = {.path = file_->path(),
           .format = "h5ad",
           .layer = layer_name(layer),
           .n_rows = matrix_.n_rows(),
           .n_cols = matrix_.n_cols(),
           .nnz = matrix_.nnz(),
           .value_dtype = data.dtype(),
           .is_dense = false,
           .compression = data.compression(),
           .rows_per_chunk = 1,
           .bytes_on_disk = file_->size()};
  if (data.is_compressed() && matrix_.n_rows() > 0) {
    const std::int64_t row_entries = std::max<std::int64_t>(1, matrix_.nnz() / matrix_.n_rows());
    info_.rows_per_chunk = std::max<std::int64_t>(1, data.chunk_elements() / row_entries);
  }
  for (const chunked::CachedArray& array : layouts_of(matrix_))
    info_.inflated_bytes += array.n_chunks * array.chunk_bytes;
  info_.scratch_bytes =
      std::max(matrix_.data().inflating_bytes(), matrix_.indices().inflating_bytes());
}

void H5adStore::read_genes() {
  const auto index = var_.read_index(0, matrix_.n_cols());
  const auto& names = static_cast<const arrow::StringArray&>(*index);
  genes_.names.reserve(static_cast<std::size_t>(names.length()));
  for (std::int64_t i = 0; i < names.length(); ++i) genes_.names.emplace_back(names.GetView(i));
}

matrix::FixedColumn H5adStore::obs_column(const std::string& name) const {
  file_->require_unchanged();
  const auto& columns = obs_.columns();
  if (name == "_index")
    return matrix::make_fixed_column(name, arrow::ChunkedArray(obs_.read_index(0, info_.n_rows)));
  if (std::find(columns.begin(), columns.end(), name) == columns.end())
    throw_error(ErrorKind::kNoSuchKey, info_.path, "no obs column '{}'{}", name,
                suggestion(name, columns));
  return matrix::make_fixed_column(name,
                                   arrow::ChunkedArray(obs_.read_column(name, 0, info_.n_rows)));
}

std::shared_ptr<arrow::Table> H5adStore::read_obs(std::int64_t begin, std::int64_t end) const {
  if (begin < 0 || begin > end || end > info_.n_rows)
    throw_error(ErrorKind::kOutOfRange, info_.path, "obs rows out of range: [{}, {}), rows {}",
                begin, end, info_.n_rows);
  file_->require_unchanged();
  return obs_.read(begin, end);
}

// Threads that ask at once find the same number.
std::uint64_t H5adStore::fingerprint() const {
  if (const std::uint64_t known = fingerprint_.load()) return known;
  const std::array<std::string, 3> groups{path_of_layer_, "obs", var_.name()};
  const std::array<std::uint64_t, 2> parts{content_fingerprint(*file_, groups),
                                           XXH3_64bits(info_.layer.data(), info_.layer.size())};
  const std::uint64_t hash = std::max<std::uint64_t>(1, XXH3_64bits(parts.data(), sizeof parts));
  fingerprint_ = hash;
  return hash;
}

}  // namespace

std::unique_ptr<RowStore> open_h5ad(const std::string& path, const OpenOptions& options) {
  if (options.cache_bytes < 0)
    throw_invalid("cache_bytes must not be negative: {}", options.cache_bytes);
  auto file = std::make_unique<H5File>(path, options.access != "map");
  const std::string layer = find_layer(*file, options.layer);
  if (file->hdf5().find(layer)->kind() == hdf5::ObjectKind::kDataset)
    throw_error(ErrorKind::kUnsupported, path,
                "'{}' is a dense matrix, which this version does not read; convert it: adata.X = "
                "scipy.sparse.csr_matrix(adata.X); adata.write_h5ad(...)",
                layer);
  return std::make_unique<H5adStore>(std::move(file), layer, options.cache_bytes);
}

}  // namespace cellfeed::format::h5ad
