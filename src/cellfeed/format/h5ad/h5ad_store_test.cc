// H5adStore: the conformance suite on files of every storage layout.
#include "cellfeed/format/h5ad/h5ad_store.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

// A store and the directory its file is in.
class KeptStore final : public RowStore {
 public:
  KeptStore(std::unique_ptr<testing::TempDir> directory, std::unique_ptr<RowStore> store)
      : directory_(std::move(directory)), store_(std::move(store)) {}
  const StoreInfo& info() const override { return store_->info(); }
  const matrix::GeneAxis& genes() const override { return store_->genes(); }
  std::unique_ptr<FetchedRows> fetch(std::span<const std::int64_t> rows, const ParallelFor& parallel) const override {
    return store_->fetch(rows, parallel);
  }
  std::int64_t plan_fetch_bytes(std::span<const std::int64_t> rows) const override {
    return store_->plan_fetch_bytes(rows);
  }
  std::vector<std::string> obs_names() const override { return store_->obs_names(); }
  matrix::FixedColumn obs_column(const std::string& name) const override { return store_->obs_column(name); }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t begin, std::int64_t end) const override {
    return store_->read_obs(begin, end);
  }
  std::shared_ptr<arrow::Table> read_var() const override { return store_->read_var(); }
  std::uint64_t fingerprint() const override { return store_->fingerprint(); }

 private:
  std::unique_ptr<testing::TempDir> directory_;
  std::unique_ptr<RowStore> store_;
};

testing::RowStoreFactory factory(H5adWriterOptions options, std::int64_t cache_bytes = 1 << 20) {
  return [=](const matrix::CsrBlock& block, DType stored) mutable {
    auto directory = std::make_unique<testing::TempDir>();
    options.value_dtype = stored;
    H5adWriter writer(directory->file("a.h5ad"), block.n_cols, options);
    writer.append(block);
    writer.finish(nullptr);
    auto store = open_h5ad(directory->file("a.h5ad"), {.cache_bytes = cache_bytes});
    return std::make_unique<KeptStore>(std::move(directory), std::move(store));
  };
}

const bool kConforms[] = {
    testing::register_row_store_conformance("h5ad_plain", factory({})),
    // Chunks far smaller than rows: a row has many pieces.
    testing::register_row_store_conformance("h5ad_tiny_chunks", factory({.chunk_elements = 5})),
    testing::register_row_store_conformance("h5ad_gzip",
                                            factory({.compression = Compression::kGzip, .chunk_elements = 64})),
    testing::register_row_store_conformance(
        "h5ad_gzip_no_cache", factory({.compression = Compression::kGzip, .chunk_elements = 64}, 0)),
    testing::register_row_store_conformance("h5ad_wide_indices", factory({.index_dtype = DType::kI64})),
};

}  // namespace
}  // namespace cellfeed::format::h5ad
