// Packed shards as RowStores: the conformance suite, mapped and read with pread.
#include <arrow/api.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "cellfeed/format/shard/shard_store.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;

void write_block(const std::string& dir, const matrix::CsrBlock& block, DType stored) {
  cellfeed::testing::ShardFixture fixture{
      .n_cells = block.n_rows, .n_genes = block.n_cols, .segment_bytes = 3000, .dtype = stored};
  fixture.shard_size = std::max<std::int64_t>(block.n_rows, 1);
  auto journal = PartialManifest::start(dir, "plan");
  const auto head = cellfeed::testing::fixture_head(dir, fixture);
  ShardSpec spec;
  spec.dir = dir;
  spec.cells = {.n_genes = block.n_cols, .value_dtype = stored, .segment_bytes = 3000};
  spec.obs_schema = cellfeed::testing::fixture_schema();
  ShardWriter writer(spec);
  const CsrSlice slice{.indptr = block.indptr.span(),
                       .indices = block.indices.data(),
                       .values = matrix::value_buffer_data(block.values),
                       .dtype = matrix::value_buffer_dtype(block.values)};
  auto rows = encode_rows(slice, {.n_genes = block.n_cols, .value_dtype = stored});
  writer.append(rows);
  writer.append_obs(conform_obs(cellfeed::testing::fixture_obs(0, block.n_rows), spec.obs_schema,
                                "source", cellfeed::testing::row_numbers(0, block.n_rows)));
  journal.add(writer.finish());
  journal.commit(head);
}

cellfeed::testing::RowStoreFactory shards_on_disk(const std::string& access) {
  return [access, root = std::make_shared<cellfeed::testing::TempDir>(),
          next = std::make_shared<int>(0)](const matrix::CsrBlock& block, DType stored) {
    const std::string dir = root->file(std::to_string((*next)++));
    fs::create_directory(dir);
    write_block(dir, block, stored);
    OpenOptions options;
    options.access = access;
    return std::move(open_shards(dir, options)[0]);
  };
}

cellfeed::testing::RowStoreFactory shards_in_memory() {
  return [](const matrix::CsrBlock& block, DType stored) {
    auto place = std::make_shared<cellfeed::testing::MemoryPlace>();
    write_block(place->path(), block, stored);
    auto store = std::move(open_shards(place->path(), {})[0]);
    return std::make_unique<cellfeed::testing::KeptStore>(std::move(place), std::move(store));
  };
}

[[maybe_unused]] const bool kUnmapped =
    cellfeed::testing::register_row_store_conformance("shard_unmapped", shards_in_memory());
[[maybe_unused]] const bool kMapped =
    cellfeed::testing::register_row_store_conformance("shard_map", shards_on_disk("map"));
[[maybe_unused]] const bool kRead =
    cellfeed::testing::register_row_store_conformance("shard_pread", shards_on_disk("pread"));

TEST(ShardStore, IsReadAsFarAheadAsItsSourceSays) {
  const cellfeed::testing::MemoryPlace place;
  write_block(place.path(), cellfeed::testing::random_csr(), DType::kF32);
  const auto store = std::move(open_shards(place.path(), {})[0]);
  const std::int64_t row = 3;
  EXPECT_EQ(store->plan({&row, 1}).read_ahead_bytes, io::ReadCosts{}.in_flight_bytes);
  place.files().set_in_flight_bytes(std::int64_t{1} << 40);
  EXPECT_EQ(store->plan({&row, 1}).read_ahead_bytes, std::int64_t{1} << 40);
}

}  // namespace
}  // namespace cellfeed::format::shard
