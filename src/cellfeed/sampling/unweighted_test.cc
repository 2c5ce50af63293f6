// Streaming and BlockShuffling: conformance, contents of blocks and groups, bad input, 1e10
// samples.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/testing/strategy_conformance.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::sampling {
namespace {

using ::cellfeed::testing::check_strategy;
using ::cellfeed::testing::error_of;
using ::cellfeed::testing::order_of;
using ::cellfeed::testing::rows_up_to;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Streaming, Conforms) {
  check_strategy([] { return std::make_shared<Streaming>(1003); },
                 {.is_random = false, .draws_each_once = true, .expected_rows = rows_up_to(1003)});
  check_strategy([] { return std::make_shared<Streaming>(1003, Indices{}, true, 100); },
                 {.is_random = true, .draws_each_once = true, .expected_rows = rows_up_to(1003)});
  check_strategy([] { return std::make_shared<Streaming>(10, Indices{{7, 1, 7, 0}}); },
                 {.is_random = false, .draws_each_once = true, .expected_rows = {0, 1, 7, 7}});
}

TEST(Streaming, ShufflesInsideTheFetchGroupOnly) {
  const Streaming strategy(1000, {}, true);
  const auto order =
      order_of(strategy, {.seed = 1, .epoch = 0, .step_samples = 10, .fetch_samples = 64});
  EXPECT_NE(order, rows_up_to(1000));
  for (std::int64_t i = 0; i < 1000; ++i)
    EXPECT_EQ(order[static_cast<std::size_t>(i)] / 64, i / 64);
}

TEST(BlockShuffling, Conforms) {
  for (const std::int64_t block : {1, 2, 7, 8, 64, 999, 1003, 5000}) {
    SCOPED_TRACE(block);
    // One or two blocks have one or two orders only, so that another seed need not give another
    // order.
    check_strategy(
        [=] { return std::make_shared<BlockShuffling>(1003, block); },
        {.is_random = block <= 64, .draws_each_once = true, .expected_rows = rows_up_to(1003)});
  }
  check_strategy([] { return std::make_shared<BlockShuffling>(1003, 16, Indices{}, true); },
                 {.is_random = true});
  check_strategy(
      [] {
        return std::make_shared<BlockShuffling>(100, 4, Indices{{5, 5, 99, 3, 4, 50, 51, 52, 53}});
      },
      {.is_random = true,
       .draws_each_once = true,
       .expected_rows = {3, 4, 5, 5, 50, 51, 52, 53, 99}});
  check_strategy(
      [] { return std::make_shared<BlockShuffling>(150'003, 2); },
      {.is_random = true, .draws_each_once = true, .expected_rows = rows_up_to(150'003)});
}

TEST(BlockShuffling, KeepsBlocksTogetherWithoutGroups) {
  const BlockShuffling strategy(1003, 8);
  const auto order =
      order_of(strategy, {.seed = 5, .epoch = 0, .step_samples = 1, .fetch_samples = 1});
  std::set<std::int64_t> blocks;
  for (std::size_t i = 0; i < order.size();) {
    const std::int64_t first = order[i];
    ASSERT_EQ(first % 8, 0);
    blocks.insert(first / 8);
    const std::int64_t size = first == 1000 ? 3 : 8;
    for (std::int64_t j = 0; j < size; ++j) ASSERT_EQ(order[i++], first + j);
  }
  EXPECT_EQ(blocks.size(), 126u);
}

TEST(BlockShuffling, TheShortBlockMovesLikeAnyOther) {
  const BlockShuffling strategy(10, 4);  // blocks 0-3, 4-7, 8-9
  std::vector<int> first(3);
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    const auto order =
        order_of(strategy, {.seed = seed, .epoch = 0, .step_samples = 1, .fetch_samples = 1});
    ++first[static_cast<std::size_t>(order[0] / 4)];
  }
  for (const int count : first) EXPECT_NEAR(count, 1000, 130);  // 5 sigma: false-alarm rate 2e-6
}

TEST(BlockShuffling, DropLastDropsOtherRowsEachEpoch) {
  const BlockShuffling strategy(10, 4, {}, true);
  std::set<std::int64_t> dropped;
  for (std::uint64_t epoch = 0; epoch < 200; ++epoch) {
    auto order =
        order_of(strategy, {.seed = 1, .epoch = epoch, .step_samples = 1, .fetch_samples = 1});
    ASSERT_EQ(order.size(), 8u);
    std::set<std::int64_t> rows(order.begin(), order.end());
    ASSERT_EQ(rows.size(), 8u);
    for (std::int64_t row = 0; row < 10; ++row) {
      if (!rows.contains(row)) dropped.insert(row);
    }
  }
  EXPECT_EQ(dropped.size(), 10u);
}

TEST(BlockShuffling, GroupsHoldTheSameBlocksAsWithoutGroups) {
  const BlockShuffling strategy(4096, 16);
  const auto plain =
      order_of(strategy, {.seed = 5, .epoch = 3, .step_samples = 1, .fetch_samples = 1});
  auto grouped =
      order_of(strategy, {.seed = 5, .epoch = 3, .step_samples = 32, .fetch_samples = 256});
  EXPECT_NE(plain, grouped);
  for (std::size_t g = 0; g < 4096; g += 256) {
    auto a = std::vector(plain.begin() + g, plain.begin() + g + 256);
    auto b = std::vector(grouped.begin() + g, grouped.begin() + g + 256);
    std::sort(a.begin(), a.end());
    std::sort(b.begin(), b.end());
    ASSERT_EQ(a, b);
  }
}

TEST(BlockShuffling, TenBillionSamplesNeedNoMemory) {
  constexpr std::int64_t n = 10'000'000'007;
  for (const std::int64_t block : {1, 8, 64}) {
    const BlockShuffling strategy(n, block);
    const OrderKey key{.seed = 1, .epoch = 0, .step_samples = 4096, .fetch_samples = 262'144};
    EXPECT_EQ(strategy.length(key), n);
    for (const std::int64_t begin : {std::int64_t{0}, n / 3, n - 10'000}) {
      const auto part = order_of(strategy, key, begin, 3, 3000);
      const std::set<std::int64_t> rows(part.begin(), part.end());
      EXPECT_EQ(rows.size(), 3000u);
      EXPECT_GE(*rows.begin(), 0);
      EXPECT_LT(*rows.rbegin(), n);
    }
  }
}

TEST(Unweighted, NamesBadInput) {
  EXPECT_THAT(error_of([] { Streaming(0); }), HasSubstr("the collection has 0 rows"));
  EXPECT_THAT(error_of([] { Streaming(5, Indices{std::vector<std::int64_t>{}}); }),
              HasSubstr("indices is empty"));
  EXPECT_THAT(error_of([] { Streaming(5, Indices{{0, 5}}); }),
              HasSubstr("indices[1] is 5, rows are 0 to 4"));
  EXPECT_THAT(error_of([] { Streaming(5, Indices{{-1}}); }), HasSubstr("indices[0] is -1"));
  EXPECT_THAT(error_of([] { Streaming(5, {}, true, -1); }), HasSubstr("shuffle_buffer is -1"));
  EXPECT_THAT(error_of([] { BlockShuffling(5, 0); }), HasSubstr("block_size is 0"));
  EXPECT_THAT(error_of([] { BlockShuffling(5, 6, {}, true); }),
              HasSubstr("fewer than block_size 6"));
  EXPECT_NO_THROW(BlockShuffling(5, 6));
}

TEST(Unweighted, FingerprintsTellSettingsApart) {
  std::set<std::uint64_t> prints;
  prints.insert(Streaming(100).fingerprint());
  prints.insert(Streaming(101).fingerprint());
  prints.insert(Streaming(100, {}, true).fingerprint());
  prints.insert(Streaming(100, {}, true, 10).fingerprint());
  prints.insert(Streaming(100, Indices{{1, 2}}).fingerprint());
  prints.insert(Streaming(100, Indices{{1, 3}}).fingerprint());
  prints.insert(BlockShuffling(100).fingerprint());
  prints.insert(BlockShuffling(100, 9).fingerprint());
  prints.insert(BlockShuffling(100, 8, {}, true).fingerprint());
  EXPECT_EQ(prints.size(), 9u);
}

}  // namespace
}  // namespace cellfeed::sampling
