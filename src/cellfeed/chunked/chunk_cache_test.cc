// ChunkCache and InflatedArray: what is kept, never more than the bytes given, each chunk once.
#include "cellfeed/chunked/chunk_cache.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <limits>
#include <numeric>
#include <stdexcept>
#include <thread>

namespace cellfeed::chunked {
namespace {

std::shared_ptr<InflatedChunk> chunk_of(const ChunkCache& cache, std::size_t bytes, int value) {
  auto chunk = cache.make_chunk(bytes);
  std::fill_n(chunk->bytes.data(), bytes, static_cast<std::byte>(value));
  return chunk;
}

TEST(InflatedArrayTest, InflatesEachChunkOnceHoweverManyAsk) {
  constexpr std::int64_t kChunks = 64;
  constexpr std::int64_t kBytes = 1000;
  InflatedArray array(kChunks, kBytes);
  std::atomic<int> inflated{0};
  std::atomic<int> claimed{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&] {
      for (std::int64_t c = 0; c < kChunks; ++c) {
        claimed += array.fill(c, [&](std::span<std::byte> out) {
          ++inflated;
          std::fill(out.begin(), out.end(), static_cast<std::byte>(c));
        });
        // Whoever comes back from fill sees all of the chunk.
        for (std::int64_t i = 0; i < kBytes; ++i)
          ASSERT_EQ(array.bytes()[c * kBytes + i], static_cast<std::byte>(c));
      }
    });
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(inflated, kChunks);
  EXPECT_EQ(claimed, kChunks);
}

TEST(InflatedArrayTest, AChunkThatFailsCanBeAskedForAgain) {
  InflatedArray array(2, 8);
  const auto fail = [](std::span<std::byte>) { throw std::runtime_error("damaged"); };
  EXPECT_THROW(array.fill(1, fail), std::runtime_error);
  EXPECT_FALSE(array.has(1));
  EXPECT_TRUE(array.fill(1, [](std::span<std::byte> out) { out[0] = std::byte{7}; }));
  EXPECT_TRUE(array.has(1));
  EXPECT_FALSE(array.fill(1, fail));
  EXPECT_FALSE(array.has(0));
  EXPECT_EQ(array.bytes()[8], std::byte{7});
}

TEST(ChunkCacheTest, KeepsArraysWholeExactlyWhereAllFit) {
  const ChunkCache cache(699, {{5, 100}, {2, 100}});
  EXPECT_FALSE(cache.keeps_whole());
  EXPECT_EQ(cache.whole(0), nullptr);
  cache.set_capacity(700);
  EXPECT_TRUE(cache.keeps_whole());
  const auto array = cache.whole(0);
  ASSERT_NE(array, nullptr);
  EXPECT_EQ(cache.whole(0), array);
  EXPECT_NE(cache.whole(1), array);
  EXPECT_EQ(cache.bytes_held(), 700);
  array->fill(4, [](std::span<std::byte> out) { out[99] = std::byte{9}; });
  cache.set_capacity(100);  // who has it keeps it
  EXPECT_EQ(cache.whole(0), nullptr);
  EXPECT_EQ(cache.bytes_held(), 0);
  EXPECT_EQ(array->bytes()[499], std::byte{9});
}

TEST(ChunkCacheTest, SizesThatOverflowAreNotKeptWhole) {
  constexpr std::int64_t kHuge = std::int64_t{1} << 40;
  const ChunkCache cache(std::numeric_limits<std::int64_t>::max() - 1, {{kHuge, kHuge}, {1, 1}});
  EXPECT_FALSE(cache.keeps_whole());
}

TEST(ChunkCacheTest, KeepsAllChunksOfNoArrayWhereAllFit) {
  constexpr std::int64_t kChunks = 20, kBytes = 1000;
  const std::int64_t all = kChunks * ChunkCache(0).make_chunk(kBytes)->memory_bytes();
  const ChunkCache cache(all, all);
  EXPECT_FALSE(cache.keeps_whole());
  for (std::int64_t i = 0; i < kChunks; ++i) cache.insert({0, i}, cache.make_chunk(kBytes));
  for (std::int64_t i = 0; i < kChunks; ++i) EXPECT_NE(cache.find({0, i}), nullptr) << i;
  EXPECT_EQ(cache.bytes_held(), all);
}

TEST(ChunkCacheTest, DropsTheLeastRecentlyUsedAndNeverHoldsMore) {
  const ChunkCache cache(1000);
  for (int i = 0; i < 50; ++i) {
    cache.insert({0, i}, chunk_of(cache, 300, i));
    EXPECT_LE(cache.bytes_held(), 1000);
    EXPECT_NE(cache.find({0, 0}), nullptr);  // used each time
  }
  EXPECT_EQ(cache.find({0, 47}), nullptr);
  ASSERT_NE(cache.find({0, 49}), nullptr);
  EXPECT_EQ(cache.find({0, 49})->bytes[299], std::byte{49});
  EXPECT_EQ(cache.find({1, 49}), nullptr);
  cache.insert({0, 99}, chunk_of(cache, 1001, 1));  // larger than all there is
  EXPECT_EQ(cache.find({0, 99}), nullptr);
  EXPECT_NE(cache.find({0, 49}), nullptr);
}

TEST(ChunkCacheTest, UsesTheMemoryOfDroppedChunksButNotOfThoseHeld) {
  const ChunkCache cache(200);  // a quarter of it is for memory that waits
  cache.insert({0, 0}, chunk_of(cache, 50, 1));
  const auto held = cache.find({0, 0});
  for (int i = 1; i < 4; ++i) cache.insert({0, i}, chunk_of(cache, 50, i + 1));
  const std::byte* second = cache.find({0, 1})->bytes.data();
  cache.find({0, 2});
  cache.find({0, 3});
  cache.insert({0, 4}, chunk_of(cache, 50, 5));
  EXPECT_EQ(held->bytes[0], std::byte{1});
  EXPECT_EQ(cache.bytes_held(), 200);
  const auto reused = cache.make_chunk(50);
  EXPECT_EQ(reused->bytes.data(), second);
  EXPECT_EQ(cache.make_chunk(49)->size, 49u);
}

TEST(ChunkCacheTest, WhatWaitsToBeUsedAgainIsPartOfTheBytes) {
  for (const std::size_t size : {10, 100, 300}) {
    const ChunkCache cache(1000);
    for (int round = 0; round < 3; ++round) {
      std::vector<std::shared_ptr<InflatedChunk>> inflating;
      for (int i = 0; i < 30; ++i) inflating.push_back(chunk_of(cache, size, i));
      for (int i = 0; i < 30; ++i) {
        cache.insert({round, i}, std::move(inflating[i]));
        EXPECT_LE(cache.bytes_held(), 1000);
      }
    }
    EXPECT_GT(cache.bytes_held(), 0);
  }
}

TEST(ChunkCacheTest, AForkedChildStartsEmptyAndDoesNotWaitForItsParent) {
  const ChunkCache cache(100, {{1, 100}});
  std::atomic<bool> is_inflating{false};
  std::atomic<bool> may_end{false};
  std::thread busy([&] {
    cache.whole(0)->fill(0, [&](std::span<std::byte>) {
      is_inflating = true;
      while (!may_end) std::this_thread::yield();
    });
  });
  while (!is_inflating) std::this_thread::yield();
  const pid_t child = ::fork();
  if (child == 0) {
    const auto array = cache.whole(0);
    const bool is_fresh = !array->has(0) && array->fill(0, [](std::span<std::byte>) {});
    ::_exit(is_fresh ? 0 : 1);
  }
  int status = -1;
  ::waitpid(child, &status, 0);
  may_end = true;
  busy.join();
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace cellfeed::chunked
