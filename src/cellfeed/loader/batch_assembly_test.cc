// What comes with the rows of a batch: obs values of those rows, and the padding marks of the plan.
#include <arrow/api.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/testing/drain.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kStores = 3;
constexpr std::int64_t kRowsPerStore = 67;

// obs column "number" holds each cell's number in the whole collection; "kind" is "even" or "odd".
std::shared_ptr<arrow::Table> obs_of(std::int64_t first) {
  arrow::StringBuilder names;
  arrow::Int64Builder numbers;
  arrow::StringDictionary32Builder kinds;
  for (std::int64_t row = first; row < first + kRowsPerStore; ++row) {
    EXPECT_TRUE(names.Append("cell" + std::to_string(row)).ok());
    EXPECT_TRUE(numbers.Append(row).ok());
    EXPECT_TRUE(kinds.Append(row % 2 == 0 ? "even" : "odd").ok());
  }
  const auto kind = kinds.Finish().ValueOrDie();
  return arrow::Table::Make(
      arrow::schema({arrow::field("_index", arrow::utf8()), arrow::field("number", arrow::int64()),
                     arrow::field("kind", kind->type())}),
      {names.Finish().ValueOrDie(), numbers.Finish().ValueOrDie(), kind});
}

std::shared_ptr<const collection::Collection> numbered_cells() {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (std::int64_t s = 0; s < kStores; ++s)
    stores.push_back(format::memory::make_memory_store(
        format::memory::make_stored_csr(
            testing::random_csr({.n_rows = kRowsPerStore, .n_cols = 20, .density = 0.3})),
        obs_of(s * kRowsPerStore)));
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

template <typename T>
std::span<const T> values_of(const matrix::ObsValues& values) {
  return {reinterpret_cast<const T*>(values.bytes.data()), values.bytes.size() / sizeof(T)};
}

TEST(BatchAssembly, ObsAndMarksAreThoseOfTheRows) {
  const auto core = make_loader_core(numbered_cells(), {.obs = {"number", "kind"}, .threads = 3});
  const auto strategy = std::make_shared<sampling::BlockShuffling>(kStores * kRowsPerStore, 1);
  std::int64_t n_padding = 0;
  for (const std::uint64_t epoch : {0u, 1u}) {
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const sampling::Plan plan(
          strategy, {.batch_size = 16, .fetch_factor = 2, .rank = rank, .world_size = 4}, 11,
          epoch);
      BatchIterator iterator(core, plan);
      std::int64_t b = 0;
      for (const auto& loaded : testing::drain(iterator)) {
        const matrix::Batch& batch = loaded->batch();
        sampling::BatchPlan planned;
        plan.batch(b++, planned);
        ASSERT_THAT(batch.rows, ::testing::ElementsAreArray(planned.rows)) << "epoch " << epoch;
        EXPECT_EQ(batch.is_padding, planned.is_padding);
        for (const auto mark : batch.is_padding) n_padding += mark;
        const auto numbers = values_of<std::int64_t>(batch.obs.at(0));
        EXPECT_THAT(numbers, ::testing::ElementsAreArray(batch.rows));
        const auto kinds = values_of<std::int64_t>(batch.obs.at(1));
        ASSERT_EQ(kinds.size(), batch.rows.size());
        for (std::size_t i = 0; i < kinds.size(); ++i) EXPECT_EQ(kinds[i], batch.rows[i] % 2);
      }
      EXPECT_EQ(b, plan.n_batches());
    }
  }
  // 201 cells on 4 ranks: three repeats an epoch.
  EXPECT_EQ(n_padding, 2 * 3);
}

}  // namespace
}  // namespace cellfeed::loader
