// AnnDataStore: a matrix, obs and var of one file.
#include "cellfeed/format/anndata/anndata_store.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/anndata/annotations.h"
#include "cellfeed/format/anndata/csc_store.h"
#include "cellfeed/format/anndata/dense_matrix.h"
#include "cellfeed/format/anndata/frame_matrix.h"
#include "cellfeed/format/anndata/layers.h"
#include "cellfeed/format/anndata/obs_store.h"
#include "cellfeed/format/anndata/sub_tree.h"
#include "cellfeed/format/csr_matrix.h"

namespace cellfeed::format::anndata {
namespace {

class AnnDataStore final : public RowStore {
 public:
  AnnDataStore(std::unique_ptr<const StoredTree> file, const std::string& format,
               const std::string& layer, std::int64_t cache_bytes);

  const StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return annotations_.genes(); }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override {
    file_->require_unchanged();
    return matrix_->begin(cache_, rows, context);
  }
  ReadPlan plan(std::span<const std::int64_t> rows) const override {
    ReadPlan plan = matrix_->plan(cache_, rows);
    plan.read_ahead_bytes = file_->row_costs().in_flight_bytes;
    return plan;
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
  std::shared_ptr<const io::SeenFiles> seen_files() const override { return file_->seen_files(); }
  Processing processing() const override { return annotations_.processing(); }
  std::uint64_t fingerprint() const override { return annotations_.fingerprint(); }

 private:
  void describe(const std::string& format, const std::string& layer);

  std::unique_ptr<const StoredTree> file_;
  std::unique_ptr<const RowMatrix> matrix_;
  chunked::ChunkCache cache_;
  Annotations annotations_;
  StoreInfo info_;
};

std::unique_ptr<const RowMatrix> open_matrix(const StoredTree& file, const std::string& layer) {
  if (const auto field = file.find_field(layer))
    return std::make_unique<DenseMatrix>(file, layer, *field);
  const auto node = file.find(layer);
  if (node->kind() != NodeKind::kGroup) return std::make_unique<DenseMatrix>(file, layer);
  if (is_obsm(layer) && is_frame(*node)) return std::make_unique<FrameMatrix>(file, layer);
  const auto [n_rows, n_cols] = read_csr_shape(file, layer);
  return std::make_unique<CsrMatrix>(file, layer, n_rows, n_cols);
}

AnnDataStore::AnnDataStore(std::unique_ptr<const StoredTree> file, const std::string& format,
                           const std::string& layer, std::int64_t cache_bytes)
    : file_(std::move(file)),
      matrix_(open_matrix(*file_, layer)),
      cache_(matrix_->take_cache_bytes(cache_bytes), cached_arrays(*matrix_)),
      annotations_(*file_, layer, matrix_->n_rows(), matrix_->n_cols(), matrix_->column_names()) {
  describe(format, layer);
}

void AnnDataStore::describe(const std::string& format, const std::string& layer) {
  info_.path = file_->path();
  info_.format = format;
  info_.layer = layer_name(layer);
  info_.root = info_.choice = file_->root();
  info_.bytes_on_disk = file_->size();
  describe_matrix(*matrix_, info_);
  if (info_.bytes_on_disk > 0) return;
  for (const StoredArray* array : matrix_->arrays()) info_.bytes_on_disk += array->stored_bytes();
}

}  // namespace

std::unique_ptr<RowStore> open_anndata(std::unique_ptr<const StoredTree> file,
                                       const std::string& format, const OpenOptions& options) {
  if (options.cache_bytes < 0)
    throw_invalid("cache_bytes must not be negative: {}", options.cache_bytes);
  refuse_other_kinds(*file);
  file = take_anndata(std::move(file), options.choice.modality);
  if (options.layer == kNoLayer) return open_obs(std::move(file), format);
  const std::string layer = find_layer(*file, options.layer);
  if (is_csc(*file, layer)) return open_csc(std::move(file), format, layer);
  return std::make_unique<AnnDataStore>(std::move(file), format, layer, options.cache_bytes);
}

}  // namespace cellfeed::format::anndata
