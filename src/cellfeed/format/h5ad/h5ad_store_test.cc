// H5adStore: the conformance suite on files of every storage layout.
#include "cellfeed/format/h5ad/h5ad_store.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

testing::RowStoreFactory factory(H5adWriterOptions options, std::int64_t cache_bytes = 1 << 20) {
  return [=](const matrix::CsrBlock& block, DType stored) mutable {
    auto directory = std::make_unique<testing::TempDir>();
    options.value_dtype = stored;
    H5adWriter writer(directory->file("a.h5ad"), block.n_cols, options);
    writer.append(block);
    writer.finish(nullptr);
    auto store = open_h5ad(directory->file("a.h5ad"), {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(directory), std::move(store));
  };
}

const bool kConforms[] = {
    testing::register_row_store_conformance("h5ad_plain", factory({})),
    // Chunks far smaller than rows: a row has many pieces.
    testing::register_row_store_conformance("h5ad_tiny_chunks", factory({.chunk_elements = 5})),
    testing::register_row_store_conformance(
        "h5ad_gzip", factory({.compression = Compression::kGzip, .chunk_elements = 64})),
    testing::register_row_store_conformance(
        "h5ad_gzip_no_cache",
        factory({.compression = Compression::kGzip, .chunk_elements = 64}, 0)),
    testing::register_row_store_conformance("h5ad_wide_indices",
                                            factory({.index_dtype = DType::kI64})),
};

}  // namespace
}  // namespace cellfeed::format::h5ad
