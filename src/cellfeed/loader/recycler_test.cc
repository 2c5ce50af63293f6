// Buffers that wait for the next batch are part of the loader's memory.
#include "cellfeed/loader/recycler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cellfeed/testing/forked_child.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kBatchBytes = 2 * 4 * 1000;  // of indices and values, as allocated

matrix::Batch make_batch(Recycler& recycler) {
  matrix::Batch batch;
  batch.x = matrix::CsrBlock{1, 1, matrix::Buffer<std::int64_t>(2), recycler.take_indices(800),
                             recycler.take_values(DType::kF32, 800)};
  return batch;
}

TEST(Recycler, WhatIsKeptIsCountedAndNeverMoreThanThereIsRoomFor) {
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes);
  Recycler recycler(100, account);
  std::vector<matrix::Batch> batches;
  for (int i = 0; i < 30; ++i) batches.push_back(make_batch(recycler));
  EXPECT_EQ(account->budget().used(), 0);
  for (auto& batch : batches) {
    recycler.give_back(batch);
    EXPECT_LE(account->budget().used(), 10 * kBatchBytes);
  }
  EXPECT_GT(account->budget().used(), 5 * kBatchBytes);
  const std::int64_t kept = account->budget().used();
  const matrix::Batch again = make_batch(recycler);
  EXPECT_LT(account->budget().used(), kept);
  recycler.drop_kept();
  EXPECT_EQ(account->budget().used(), 0);
}

TEST(Recycler, KeepsNoMoreBuffersThanItWasTold) {
  const auto account = std::make_shared<const MemoryAccount>(100 * kBatchBytes);
  Recycler recycler(2, account);
  std::vector<matrix::Batch> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(make_batch(recycler));
  for (auto& batch : batches) recycler.give_back(batch);
  EXPECT_LE(account->budget().used(), 2 * kBatchBytes);
}

TEST(Recycler, AForkedChildStartsWithNone) {
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "a sanitizer's own locks are not fork-safe";
#endif
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes);
  Recycler recycler(100, account);
  const auto use = [&] {
    matrix::Batch batch = make_batch(recycler);
    recycler.give_back(batch);
  };
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) use();
  });
  for (int i = 0; i < 40; ++i)
    EXPECT_EQ(testing::run_in_child([&] {
                if (account->budget().used() != 0) return false;
                use();
                return account->budget().used() > 0;
              }),
              0);
  stop = true;
}

}  // namespace
}  // namespace cellfeed::loader
