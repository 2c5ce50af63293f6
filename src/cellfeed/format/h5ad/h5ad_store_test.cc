// H5adStore: the conformance suite on files of every storage layout.
#include "cellfeed/format/h5ad/h5ad_store.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <vector>

#include "cellfeed/format/h5ad/h5ad_writer.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::h5ad {
namespace {

// Place: TempDir, or MemoryPlace: written to a file system that is not local, and read where
// nothing is mapped.
template <typename Place>
testing::RowStoreFactory factory_in(H5adWriterOptions options, std::int64_t cache_bytes) {
  return [=](const matrix::CsrBlock& block, DType stored) mutable {
    auto place = std::make_shared<Place>();
    options.value_dtype = stored;
    H5adWriter writer(place->file("a.h5ad"), block.n_cols, options);
    writer.append(block);
    writer.finish(nullptr);
    auto store = open_h5ad(place->file("a.h5ad"), {.cache_bytes = cache_bytes});
    return std::make_unique<testing::KeptStore>(std::move(place), std::move(store));
  };
}

testing::RowStoreFactory h5ad_on_disk(H5adWriterOptions options,
                                      std::int64_t cache_bytes = 1 << 20) {
  return factory_in<testing::TempDir>(std::move(options), cache_bytes);
}

testing::RowStoreFactory h5ad_in_memory(H5adWriterOptions options,
                                        std::int64_t cache_bytes = 1 << 20) {
  return factory_in<testing::MemoryPlace>(std::move(options), cache_bytes);
}

const H5adWriterOptions kGzipOptions{.compression = Compression::kGzip, .chunk_elements = 64};

const bool kH5adConforms[] = {
    testing::register_row_store_conformance("h5ad_unmapped", h5ad_in_memory({})),
    testing::register_row_store_conformance("h5ad_unmapped_no_cache", h5ad_in_memory({}, 0)),
    testing::register_row_store_conformance("h5ad_unmapped_tiny_chunks",
                                            h5ad_in_memory({.chunk_elements = 5})),
    testing::register_row_store_conformance("h5ad_unmapped_gzip", h5ad_in_memory(kGzipOptions)),
    testing::register_row_store_conformance("h5ad_unmapped_gzip_no_cache",
                                            h5ad_in_memory(kGzipOptions, 0)),
    testing::register_row_store_conformance("h5ad_plain", h5ad_on_disk({})),
    // Chunks far smaller than rows: a row has many pieces.
    testing::register_row_store_conformance("h5ad_tiny_chunks",
                                            h5ad_on_disk({.chunk_elements = 5})),
    testing::register_row_store_conformance(
        "h5ad_gzip", h5ad_on_disk({.compression = Compression::kGzip, .chunk_elements = 64})),
    testing::register_row_store_conformance(
        "h5ad_gzip_no_cache",
        h5ad_on_disk({.compression = Compression::kGzip, .chunk_elements = 64}, 0)),
    testing::register_row_store_conformance("h5ad_wide_indices",
                                            h5ad_on_disk({.index_dtype = DType::kI64})),
};

TEST(H5adStore, RowsThatAreNotMappedTakeTwoRoundTrips) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const testing::MemoryPlace place;
    const auto block = testing::random_csr({.n_rows = 20'000, .n_cols = 10});
    H5adWriter writer(place.file("a.h5ad"), block.n_cols,
                      {.compression = compression, .chunk_elements = 1000});
    writer.append(block);
    writer.finish(nullptr);
    const auto store = open_h5ad(place.file("a.h5ad"), {.cache_bytes = 0});
    std::vector<std::int64_t> rows(100);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) * 200;
    // Where chunks lie is looked up once.
    for (int time = 0; time < 2; ++time) {
      const std::int64_t before = place.files().round_trips();
      const auto fetched = store->begin(rows, {});
      fetched->wait();
      for (std::int64_t task = 0; task < fetched->n_tasks(); ++task) fetched->run(task);
      testing::decode_rows(*fetched);
      // The offsets of rows, and what lies between them.
      if (time > 0) {
        EXPECT_EQ(place.files().round_trips() - before, 2);
      }
    }
  }
}

TEST(H5adStore, IsReadAsFarAheadAsItsSourceSays) {
  const testing::MemoryPlace place;
  const auto block = testing::random_csr();
  H5adWriter writer(place.file("a.h5ad"), block.n_cols, {});
  writer.append(block);
  writer.finish(nullptr);
  place.files().set_in_flight_bytes(std::int64_t{1} << 40);
  const auto store = open_h5ad(place.file("a.h5ad"), {});
  const std::int64_t row = 3;
  EXPECT_EQ(store->plan({&row, 1}).read_ahead_bytes, std::int64_t{1} << 40);
}

// Between being asked for and being decoded.
TEST(H5adStore, RowsOfAFileThatIsShortenedAreAnError) {
  for (const Compression compression : {Compression::kNone, Compression::kGzip}) {
    const testing::TempDir directory;
    const std::string path = directory.file("a.h5ad");
    const auto block = testing::random_csr({.n_rows = 20'000, .n_cols = 10});
    H5adWriter writer(path, block.n_cols, {.compression = compression, .chunk_elements = 1000});
    writer.append(block);
    writer.finish(nullptr);
    const auto store = open_h5ad(path, {.cache_bytes = 0});
    std::vector<std::int64_t> rows(100);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = static_cast<std::int64_t>(i) * 200;
    const auto fetched = store->begin(rows, {});
    std::filesystem::resize_file(path, 1000);
    try {
      for (std::int64_t task = 0; task < fetched->n_tasks(); ++task) fetched->run(task);
      testing::decode_rows(*fetched);
      ADD_FAILURE() << "rows without a file";
    } catch (const Error& error) {
      EXPECT_NE(std::string(error.what()).find("opened"), std::string::npos) << error.what();
      EXPECT_EQ(error.path(), path);
    }
  }
}

}  // namespace
}  // namespace cellfeed::format::h5ad
