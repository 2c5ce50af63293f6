// H5adStore: a matrix, obs and var of one file.
#include "cellfeed/format/h5ad/h5ad_store.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/csr_matrix.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/annotations.h"
#include "cellfeed/format/h5ad/csc_store.h"
#include "cellfeed/format/h5ad/dense_matrix.h"
#include "cellfeed/format/h5ad/layers.h"

namespace cellfeed::format::h5ad {
namespace {

class H5adStore final : public RowStore {
 public:
  H5adStore(std::unique_ptr<H5File> file, const std::string& layer, std::int64_t cache_bytes);

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return annotations_.genes(); }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    file_->require_unchanged();
    return matrix_->begin(cache_, rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    return matrix_->plan(cache_, rows);
  }
  void set_cache_bytes(std::int64_t bytes) const override {
    cache_.set_capacity(matrix_->take_cache_bytes(bytes));
  }
  void release_pages() const override { file_->release_pages(); }
  std::vector<std::string> obs_names() const override { return annotations_.obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override {
    return annotations_.obs_column(name);
  }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return annotations_.read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return annotations_.read_var(); }
  Processing processing() const override { return annotations_.processing(); }
  std::uint64_t fingerprint() const override { return annotations_.fingerprint(); }

 private:
  void describe(const std::string& layer);

  std::unique_ptr<H5File> file_;
  std::unique_ptr<const RowMatrix> matrix_;
  chunked::ChunkCache cache_;
  Annotations annotations_;
  StoreInfo info_;
};

std::unique_ptr<const RowMatrix> open_matrix(const H5File& file, const std::string& layer) {
  if (const auto field = find_obsm_field(file, layer))
    return std::make_unique<DenseMatrix>(file, layer, *field);
  if (file.hdf5().find(layer)->kind() == hdf5::ObjectKind::kDataset)
    return std::make_unique<DenseMatrix>(file, layer);
  const auto [n_rows, n_cols] = read_csr_shape(file, layer);
  return std::make_unique<CsrMatrix>(file, layer, n_rows, n_cols);
}

H5adStore::H5adStore(std::unique_ptr<H5File> file, const std::string& layer,
                     std::int64_t cache_bytes)
    : file_(std::move(file)),
      matrix_(open_matrix(*file_, layer)),
      cache_(matrix_->take_cache_bytes(cache_bytes), cached_arrays(*matrix_)),
      annotations_(*file_, layer, matrix_->n_rows(), matrix_->n_cols()) {
  describe(layer);
}

void H5adStore::describe(const std::string& layer) {
  info_.path = file_->path();
  info_.format = "h5ad";
  info_.layer = layer_name(layer);
  info_.bytes_on_disk = file_->size();
  describe_matrix(*matrix_, info_);
}

}  // namespace

std::unique_ptr<RowStore> open_h5ad(const std::string& path, const OpenOptions& options) {
  return open_h5ad(std::make_unique<H5File>(path, options.access != "map", options.allow_external),
                   options);
}

std::unique_ptr<RowStore> open_h5ad(std::unique_ptr<H5File> file, const OpenOptions& options) {
  if (options.cache_bytes < 0)
    throw_invalid("cache_bytes must not be negative: {}", options.cache_bytes);
  const std::string layer = find_layer(*file, options.layer);
  if (is_csc(*file, layer)) return open_csc(std::move(file), layer);
  return std::make_unique<H5adStore>(std::move(file), layer, options.cache_bytes);
}

}  // namespace cellfeed::format::h5ad
