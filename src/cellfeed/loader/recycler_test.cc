// Buffers that wait for the next batch are part of the loader's memory.
#include "cellfeed/loader/recycler.h"

#include <gtest/gtest.h>

#include <atomic>
#include <set>
#include <thread>
#include <vector>

#include "cellfeed/testing/forked_child.h"

namespace cellfeed::loader {
namespace {

constexpr std::int64_t kBatchBytes = 2 * 4 * 1000;  // of indices and values, as allocated

matrix::Batch taken_batch(Recycler& recycler) {
  matrix::Batch batch;
  batch.x = matrix::CsrBlock{1, 1, matrix::Buffer<std::int64_t>(2), recycler.take_indices(800),
                             recycler.take_values(DType::kF32, 800)};
  return batch;
}

TEST(Recycler, WhatIsKeptIsCountedAndNeverMoreThanThereIsRoomFor) {
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes);
  Recycler recycler(100, account);
  std::vector<matrix::Batch> batches;
  for (int i = 0; i < 30; ++i) batches.push_back(taken_batch(recycler));
  EXPECT_EQ(account->budget().used(), 0);
  for (auto& batch : batches) {
    recycler.give_back(batch);
    EXPECT_LE(account->budget().used(), 10 * kBatchBytes);
  }
  EXPECT_GT(account->budget().used(), 5 * kBatchBytes);
  const std::int64_t kept = account->budget().used();
  const matrix::Batch again = taken_batch(recycler);
  EXPECT_LT(account->budget().used(), kept);
  recycler.drop_kept(false);
  EXPECT_EQ(account->budget().used(), 0);
}

// As where a loader reads ahead as far as it may.
TEST(Recycler, WhatBelongsToBuffersIsThereWhileAllElseIsTaken) {
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes, 3 * kBatchBytes);
  Recycler recycler(100, account);
  const auto all = account->budget().take(7 * kBatchBytes);
  const auto give_back_five = [&] {
    std::vector<matrix::Batch> batches;
    for (int i = 0; i < 5; ++i) batches.push_back(taken_batch(recycler));
    for (auto& batch : batches) recycler.give_back(batch);
  };
  give_back_five();
  EXPECT_EQ(account->budget().used(), 7 * kBatchBytes);
  const std::int64_t kept = account->buffers()->used();
  EXPECT_GE(kept, 2 * kBatchBytes);
  EXPECT_LE(kept, 3 * kBatchBytes);
  recycler.drop_kept(false);
  EXPECT_EQ(account->buffers()->used(), kept);
  {
    const matrix::Batch again = taken_batch(recycler);
    EXPECT_LT(account->buffers()->used(), kept);
  }
  recycler.drop_kept(true);
  EXPECT_EQ(account->buffers()->used(), 0);
}

TEST(Recycler, BeyondThatPartBuffersAreKeptWhileThereIsRoomAndDropped) {
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes, 3 * kBatchBytes);
  Recycler recycler(100, account);
  std::vector<matrix::Batch> batches;
  for (int i = 0; i < 30; ++i) batches.push_back(taken_batch(recycler));
  for (auto& batch : batches) recycler.give_back(batch);
  EXPECT_GT(account->budget().used(), 4 * kBatchBytes);
  EXPECT_LE(account->budget().used() + account->buffers()->used(), 10 * kBatchBytes);
  recycler.drop_kept(false);
  EXPECT_EQ(account->budget().used(), 0);
  EXPECT_GE(account->buffers()->used(), 2 * kBatchBytes);
}

TEST(Recycler, ABufferLargerThanThatPartHasNoPlaceInIt) {
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes, kBatchBytes / 4);
  Recycler recycler(100, account);
  const auto all = account->budget().take(10 * kBatchBytes);
  matrix::Batch batch = taken_batch(recycler);
  recycler.give_back(batch);
  EXPECT_EQ(account->buffers()->used(), 0);
}

TEST(Recycler, KeepsNoMoreBuffersThanItWasTold) {
  const auto account = std::make_shared<const MemoryAccount>(100 * kBatchBytes);
  Recycler recycler(2, account);
  std::vector<matrix::Batch> batches;
  for (int i = 0; i < 5; ++i) batches.push_back(taken_batch(recycler));
  for (auto& batch : batches) recycler.give_back(batch);
  EXPECT_LE(account->budget().used(), 2 * kBatchBytes);
}

// A batch of a wide matrix and a narrow one: each gets the buffer that it gave back.
TEST(Recycler, LargeAndSmallMatricesKeepTheirBuffers) {
  const auto account = std::make_shared<const MemoryAccount>(std::int64_t{1} << 30);
  Recycler recycler(100, account);
  const auto make = [&] {
    matrix::Batch batch;
    batch.x = matrix::DenseBlock{1, 1'000'000, recycler.take_values(DType::kF32, 1'000'000)};
    batch.others.emplace_back(
        matrix::DenseBlock{1, 50'000, recycler.take_values(DType::kF32, 50'000, 1)});
    batch.others.emplace_back(
        matrix::DenseBlock{1, 50'000, recycler.take_values(DType::kF64, 50'000, 2)});
    return batch;
  };
  const auto addresses = [](matrix::Batch& batch) {
    std::vector<const void*> found;
    for (std::size_t m = 0; m < 3; ++m)
      found.push_back(matrix::value_buffer_data(*matrix::block_values(batch.block(m))));
    return found;
  };
  matrix::Batch first = make();
  const auto expected = addresses(first);
  recycler.give_back(first);
  const std::int64_t kept = account->budget().used();
  for (int i = 0; i < 5; ++i) {
    matrix::Batch again = make();
    EXPECT_EQ(addresses(again), expected);
    recycler.give_back(again);
    EXPECT_EQ(account->budget().used(), kept);
  }
}

// Sizes of batches vary: after a round with the largest one no batch needs fresh pages.
TEST(Recycler, BuffersGrowToTheLargestBatchAndStay) {
  const auto account = std::make_shared<const MemoryAccount>(std::int64_t{1} << 30);
  Recycler recycler(3, account);
  std::set<const void*> known;
  for (const std::size_t size : {400'000, 400'000, 1000, 250'000, 10'000, 400'000, 120'000}) {
    std::vector<matrix::Batch> batches(3);
    std::set<const void*> taken;
    for (auto& batch : batches) {
      batch.x = matrix::DenseBlock{1, 1, recycler.take_values(DType::kF32, size)};
      taken.insert(matrix::value_buffer_data(*matrix::block_values(batch.x)));
    }
    EXPECT_TRUE(known.empty() || taken == known);
    known = taken;
    for (auto& batch : batches) recycler.give_back(batch);
  }
}

TEST(Recycler, ALargeBufferOfASmallBatchIsCountedAsWhatItIs) {
  const auto account = std::make_shared<const MemoryAccount>(std::int64_t{1} << 30);
  Recycler recycler(3, account);
  const auto make = [&](std::size_t size) {
    matrix::Batch batch;
    batch.x = matrix::DenseBlock{1, 1, recycler.take_values(DType::kF32, size)};
    return batch;
  };
  matrix::Batch large = make(1'000'000);
  const std::int64_t bytes = recycler.taken_bytes(large);
  EXPECT_EQ(bytes, recycler.taken_bytes(4'000'000));
  recycler.give_back(large);
  EXPECT_EQ(recycler.taken_bytes(make(10)), bytes);
}

TEST(Recycler, AForkedChildStartsWithNone) {
  if (testing::kSanitizer) GTEST_SKIP() << "a sanitizer's own locks are not fork-safe";
  const auto account = std::make_shared<const MemoryAccount>(10 * kBatchBytes);
  Recycler recycler(100, account);
  const auto use = [&] {
    matrix::Batch batch = taken_batch(recycler);
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
