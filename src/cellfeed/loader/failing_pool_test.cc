// Iterators whose tasks cannot be begun: every consumer gets an error, in time, and no thread
// stays.
#include "cellfeed/testing/failing_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/loader/batch_iterator.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kSlicedRows = 600;
constexpr std::int64_t kSlicedBatch = 200;  // of several slices
constexpr std::int64_t kAllTasks = 12;

std::shared_ptr<const LoaderCore> sliced_core() {
  std::vector<std::unique_ptr<format::RowStore>> stores;
  stores.push_back(format::memory::make_memory_store(format::memory::make_stored_csr(
      testing::random_csr({.n_rows = kSlicedRows, .n_cols = 30, .density = 0.3}))));
  return make_loader_core(std::make_shared<const collection::Collection>(
                              std::move(stores), collection::CollectionOptions{}),
                          {.threads = 2});
}

sampling::Plan make_plan() {
  return sampling::Plan(std::make_shared<sampling::Streaming>(kSlicedRows),
                        {.batch_size = kSlicedBatch, .fetch_factor = 1}, 0, 0);
}

// Rows until the end or an error, whose text is kept. Fails where neither comes within 20 s.
std::int64_t rows_until_end(BatchIterator& iterator, std::string* error) {
  std::int64_t rows = 0;
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (std::chrono::steady_clock::now() < deadline) {
    std::shared_ptr<LoadedBatch> batch;
    try {
      const auto status = iterator.next(100, &batch);
      if (status == BatchIterator::Status::kEnd) return rows;
      if (status == BatchIterator::Status::kReady) rows += batch->batch().n_rows();
    } catch (const Error& caught) {
      *error = caught.what();
      return rows;
    }
  }
  ADD_FAILURE() << "next() waits for ever";
  return rows;
}

TEST(FailingPool, EverySubmitThatFailsIsAnErrorOfNext) {
  const auto core = sliced_core();
  for (std::int64_t n_good = 0; n_good < kAllTasks; ++n_good) {
    const auto pool = std::make_shared<testing::FailingPool>(2, n_good);
    std::string error;
    {
      BatchIterator iterator(core, make_plan(), 0, 1, pool);
      const std::int64_t rows = rows_until_end(iterator, &error);
      EXPECT_EQ(rows % kSlicedBatch, 0);
      EXPECT_LE(rows, n_good * 64);
      std::shared_ptr<LoadedBatch> batch;
      EXPECT_EQ(iterator.next(0, &batch), BatchIterator::Status::kEnd);
    }
    EXPECT_THAT(error, ::testing::HasSubstr("planted fault")) << n_good;
    EXPECT_TRUE(pool->has_failed());
  }
}

TEST(FailingPool, IsDoneWithWhenAllTasksAreBegun) {
  const auto pool = std::make_shared<testing::FailingPool>(2, kAllTasks);
  BatchIterator iterator(sliced_core(), make_plan(), 0, 1, pool);
  std::string error;
  EXPECT_EQ(rows_until_end(iterator, &error), kSlicedRows);
  EXPECT_FALSE(pool->has_failed());
}

}  // namespace
}  // namespace cellfeed::loader
