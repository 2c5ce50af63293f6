// WholeShards: conformance, who reads which shards, levelling, bad input.
#include "cellfeed/sampling/whole_shards.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/strategy_conformance.h"

namespace cellfeed::sampling {
namespace {

using ::cellfeed::testing::check_strategy;
using ::cellfeed::testing::order_of;
using ::cellfeed::testing::rows_up_to;

TEST(WholeShards, Conforms) {
  for (const std::int64_t n_ranks : {1, 2, 3, 7, 200}) {
    SCOPED_TRACE(n_ranks);
    check_strategy(
        [n_ranks] {
          return std::make_shared<WholeShards>(std::vector<std::int64_t>{0, 20, 20, 70, 101},
                                               n_ranks);
        },
        {.is_random = n_ranks < 101, .draws_each_once = true, .expected_rows = rows_up_to(101)});
  }
}

TEST(WholeShards, ARankReadsShardsOfItsOwn) {
  // Six shards of 10 on three ranks.
  const WholeShards strategy({0, 10, 20, 30, 40, 50, 60}, 3);
  for (const std::uint64_t epoch : {0, 1})
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      std::set<std::int64_t> shards;
      for (const std::int64_t row :
           order_of(strategy, {.seed = 1, .epoch = epoch, .step_samples = 6, .fetch_samples = 12},
                    rank, 3))
        shards.insert(row / 10);
      EXPECT_THAT(shards, ::testing::ElementsAre(rank, rank + 3));
    }
}

TEST(WholeShards, UnequalShardsAreLevelledAndFewRowsMove) {
  // Ranks would have 60 and 41 of 101 rows; 51 and 50 are due.
  const WholeShards strategy({0, 50, 91, 101}, 2);
  const OrderKey key{.seed = 5, .epoch = 0, .step_samples = 2, .fetch_samples = 4};
  std::int64_t n_moved = 0;
  for (const std::int64_t row : order_of(strategy, key, 1, 2)) n_moved += row < 50 || row >= 91;
  EXPECT_EQ(n_moved, 9);
  for (const std::int64_t row : order_of(strategy, key, 0, 2)) EXPECT_TRUE(row < 50 || row >= 91);
}

TEST(WholeShards, BadInputIsRefused) {
  EXPECT_THROW(WholeShards({0, 10}, 0), Error);
  EXPECT_THROW(WholeShards({0, 10}, std::int64_t{1} << 40), Error);
  for (const std::vector<std::int64_t>& offsets :
       std::vector<std::vector<std::int64_t>>{{}, {0}, {0, 0}, {1, 5}, {0, 5, 3, 9}, {0, -4}})
    EXPECT_THROW(WholeShards(offsets, 2), Error);
}

TEST(WholeShards, TheOrderDependsOnTheOffsetsAndTheRanks) {
  const WholeShards one({0, 10, 20}, 2), two({0, 11, 20}, 2), three({0, 10, 20}, 3);
  EXPECT_NE(one.fingerprint(), two.fingerprint());
  EXPECT_NE(one.fingerprint(), three.fingerprint());
}

}  // namespace
}  // namespace cellfeed::sampling
