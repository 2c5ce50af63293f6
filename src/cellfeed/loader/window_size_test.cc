// Windows of compressed files: within the room there is, never a few batches of a group.
#include "cellfeed/loader/window_size.h"

#include <gtest/gtest.h>

#include <numeric>
#include <set>

#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/slow_row_store.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kStoreRows = 4096;
constexpr std::int64_t kBatchRows = 32;
constexpr std::int64_t kChunkRows = 8;
constexpr std::int64_t kRowBytes = 1000;

// Says that its rows come in compressed chunks, and what memory they take.
class ChunkedStore final : public format::ForwardingStore {
 public:
  explicit ChunkedStore(bool is_compressed)
      : ForwardingStore(format::memory::make_memory_store(format::memory::make_stored_csr(
            testing::random_csr({.n_rows = kStoreRows, .n_cols = 4, .density = 0.3})))),
        info_(store_->info()) {
    info_.inflated_bytes = is_compressed ? kStoreRows * kRowBytes : 0;
  }
  const format::StoreInfo& info() const override { return info_; }
  format::ReadPlan plan(std::span<const std::int64_t> rows) const override {
    std::set<std::int64_t> chunks;
    for (const std::int64_t row : rows) chunks.insert(row / kChunkRows);
    return {.bytes_held = is_compressed() ? kRowBytes * std::ssize(rows) : 0,
            .bytes_inflated = is_compressed() ? std::ssize(chunks) * kChunkRows * kRowBytes : 0};
  }
  bool is_compressed() const { return info_.inflated_bytes > 0; }

 private:
  format::StoreInfo info_;
};

// For each store: whether it is compressed.
using AreCompressed = std::vector<bool>;

std::shared_ptr<const collection::Collection> cells(const AreCompressed& compressed) {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  for (const bool is_compressed : compressed)
    stores.push_back(std::make_unique<ChunkedStore>(is_compressed));
  return std::make_shared<const collection::Collection>(std::move(stores),
                                                        collection::CollectionOptions{});
}

sampling::Plan plan_of_stores(std::int64_t block, std::int64_t fetch, std::int64_t n_stores = 1) {
  std::shared_ptr<const sampling::Strategy> strategy;
  if (block == 0)
    strategy = std::make_shared<sampling::Streaming>(n_stores * kStoreRows);
  else
    strategy = std::make_shared<sampling::BlockShuffling>(n_stores * kStoreRows, block);
  return {strategy, {.batch_size = kBatchRows, .fetch_factor = fetch}, 1, 0};
}

// Batches of each window of an epoch, taken by this step.
std::vector<std::int64_t> window_sizes(const sampling::Plan& plan, WindowRoom room,
                                       const AreCompressed& compressed = {true},
                                       std::int64_t step = 1) {
  const auto collection = cells(compressed);
  const BatchSequence batches{plan, 0, step, (plan.n_batches() + step - 1) / step};
  std::vector<std::int64_t> sizes;
  sampling::BatchPlan expected;
  WindowSizer sizer(*collection, batches, room);
  for (std::int64_t next = 0; next < batches.size; next += sizes.back()) {
    const auto window = sizer.next_window();
    if (window.batches.empty()) break;
    sizes.push_back(std::ssize(window.batches));
    for (std::int64_t i = 0; i < std::ssize(window.batches); ++i) {
      plan.batch((next + i) * step, expected);
      EXPECT_EQ(window.batches[i].plan.rows, expected.rows);
    }
  }
  EXPECT_TRUE(sizer.next_window().batches.empty());
  EXPECT_EQ(std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0}), batches.size);
  return sizes;
}

WindowRoom room_for(std::int64_t n_batches) { return {n_batches * kBatchRows * kRowBytes}; }

TEST(WindowSizeTest, FetchGroupsWhereNothingIsInflated) {
  EXPECT_EQ(window_sizes(plan_of_stores(8, 16), {1}, {false}), std::vector<std::int64_t>(8, 16));
}

TEST(WindowSizeTest, FetchGroupsWhereLittleIsInflated) {
  EXPECT_EQ(window_sizes(plan_of_stores(1, 16, 4), room_for(100), {false, true, false, false}),
            std::vector<std::int64_t>(32, 16));
  // In storage order first three plain stores, and then a compressed one: room is used there.
  EXPECT_EQ(window_sizes(plan_of_stores(0, 16, 4), room_for(200), {false, false, false, true}),
            (std::vector<std::int64_t>{16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16,
                                       16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 16, 64, 64}));
}

TEST(WindowSizeTest, ChunksThatAreKeptNeedNoLargeWindows) {
  const WindowRoom room{.bytes = 1, .keeps_chunks = true};
  EXPECT_EQ(window_sizes(plan_of_stores(8, 8), room), std::vector<std::int64_t>(16, 8));
  EXPECT_EQ(window_sizes(plan_of_stores(8, 64), room), std::vector<std::int64_t>(8, 16));
}

TEST(WindowSizeTest, OneBatchWhereThereIsRoomForNone) {
  EXPECT_EQ(window_sizes(plan_of_stores(1, 16), {1}), std::vector<std::int64_t>(128, 1));
}

TEST(WindowSizeTest, InStorageOrderTwoWindowsFit) {
  EXPECT_EQ(window_sizes(plan_of_stores(0, 16), room_for(20)), std::vector<std::int64_t>(16, 8));
  // Room that is left is used.
  EXPECT_EQ(window_sizes(plan_of_stores(0, 4), room_for(80)), std::vector<std::int64_t>(4, 32));
}

TEST(WindowSizeTest, AGroupThatFitsIsNotCut) {
  // Half a group would inflate its chunks twice.
  EXPECT_EQ(window_sizes(plan_of_stores(16, 32), room_for(41)), std::vector<std::int64_t>(4, 32));
}

TEST(WindowSizeTest, AGroupThatDoesNotFitIsCutIntoEqualParts) {
  EXPECT_EQ(window_sizes(plan_of_stores(16, 32), room_for(15)),
            (std::vector<std::int64_t>{11, 11, 10, 11, 11, 10, 11, 11, 10, 11, 11, 10}));
}

TEST(WindowSizeTest, TrueRandomOrderFillsTheRoom) {
  EXPECT_EQ(window_sizes(plan_of_stores(1, 4), room_for(60)), std::vector<std::int64_t>(4, 32));
}

TEST(WindowSizeTest, ABatchInFourOfAWorker) {
  window_sizes(plan_of_stores(16, 32), room_for(15), {true}, 4);
}

}  // namespace
}  // namespace cellfeed::loader
