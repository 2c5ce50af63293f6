// GroupSampling: batches of one group, every member once, padding by the group's own members.
#include "cellfeed/sampling/group_sampling.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <random>
#include <set>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/plan.h"
#include "cellfeed/testing/label_index.h"
#include "cellfeed/testing/strategy_conformance.h"

namespace cellfeed::sampling {
namespace {

using ::cellfeed::testing::check_strategy;
using ::cellfeed::testing::index_of;
using ::cellfeed::testing::order_of;

std::vector<std::int32_t> donors(std::size_t n, unsigned groups) {
  std::mt19937 rng(9);
  std::vector<std::int32_t> out(n);
  for (auto& d : out) d = static_cast<std::int32_t>(rng() % (groups + 1)) - 1;
  return out;
}

std::vector<std::int64_t> labelled(const std::vector<std::int32_t>& codes) {
  std::vector<std::int64_t> rows;
  for (std::size_t i = 0; i < codes.size(); ++i) {
    if (codes[i] >= 0) rows.push_back(static_cast<std::int64_t>(i));
  }
  return rows;
}

TEST(GroupSampling, Conforms) {
  const auto codes = donors(997, 12);
  check_strategy([&] { return std::make_shared<GroupSampling>(index_of(codes)); },
                 {.draws_each_once = true, .expected_rows = labelled(codes)});
  check_strategy(
      [&] {
        return std::make_shared<GroupSampling>(index_of(codes),
                                               GroupSamplingOptions{.drop_last = true});
      },
      {});
}

TEST(GroupSampling, EveryStepHoldsOneGroupOnAllRanks) {
  const auto codes = donors(997, 12);
  const auto strategy = std::make_shared<GroupSampling>(index_of(codes));
  for (const Partition partition : {Partition::kInterleave, Partition::kGroup}) {
    for (const std::int64_t world : {1, 3, 4}) {
      std::multiset<std::int64_t> real;
      std::map<std::int64_t, std::set<std::int32_t>> groups_of_step;
      for (std::int64_t rank = 0; rank < world; ++rank) {
        const Plan plan(strategy,
                        {.batch_size = 7,
                         .fetch_factor = 3,
                         .rank = rank,
                         .world_size = world,
                         .partition = partition},
                        5, 6);
        BatchPlan batch;
        for (std::int64_t b = 0; b < plan.n_batches(); ++b) {
          plan.batch(b, batch);
          ASSERT_EQ(batch.rows.size(), 7u);
          std::set<std::int32_t> groups;
          for (std::size_t i = 0; i < 7; ++i) {
            groups.insert(codes[static_cast<std::size_t>(batch.rows[i])]);
            if (batch.is_padding.empty() || batch.is_padding[i] == 0) real.insert(batch.rows[i]);
          }
          ASSERT_EQ(groups.size(), 1u);
          groups_of_step[b].insert(*groups.begin());
        }
      }
      const auto expected = labelled(codes);
      EXPECT_EQ(std::vector(real.begin(), real.end()), expected);
      if (partition == Partition::kInterleave) {
        for (const auto& [step, groups] : groups_of_step) EXPECT_EQ(groups.size(), 1u);
      }
    }
  }
}

TEST(GroupSampling, AResumeKeepsGroupsApartOrIsRefused) {
  const auto codes = donors(97, 4);
  const auto strategy = std::make_shared<GroupSampling>(index_of(codes));
  std::map<bool, int> outcomes;
  for (const Partition partition : {Partition::kInterleave, Partition::kGroup}) {
    for (const std::int64_t steps : {1, 2, 3}) {
      for (std::int64_t world = 1; world <= 4; ++world) {
        for (std::int64_t size = 1; size <= 8; ++size) {
          PlanOptions options{.batch_size = size,
                              .fetch_factor = 2,
                              .world_size = world,
                              .partition = partition,
                              .consumed = steps * 8,
                              .order_step_samples = 8,
                              .order_fetch_samples = partition == Partition::kGroup ? 8 : 16,
                              .order_batch_size = 4};
          std::multiset<std::int64_t> real;
          std::set<std::int64_t> n_batches;
          try {
            BatchPlan batch;
            for (options.rank = 0; options.rank < world; ++options.rank) {
              const Plan plan(strategy, options, 5, 6);
              n_batches.insert(plan.n_batches());
              for (std::int64_t b = 0; b < plan.n_batches(); ++b) {
                plan.batch(b, batch);
                std::set<std::int32_t> groups;
                for (const std::int64_t row : batch.rows) {
                  groups.insert(codes[static_cast<std::size_t>(row)]);
                }
                ASSERT_EQ(groups.size(), 1u);
                for (std::size_t i = 0; i < batch.rows.size(); ++i) {
                  if (batch.is_padding.empty() || !batch.is_padding[i]) real.insert(batch.rows[i]);
                }
              }
            }
            EXPECT_EQ(n_batches.size(), 1u);
            EXPECT_EQ(std::set<std::int64_t>(real.begin(), real.end()).size(), real.size());
            ++outcomes[true];
          } catch (const Error& error) {
            EXPECT_THAT(error.what(), ::testing::HasSubstr("would mix groups"));
            EXPECT_FALSE(partition == Partition::kInterleave && 8 % (world * size) == 0);
            EXPECT_FALSE(world == 2 && size == 4) << "the run itself";
            ++outcomes[false];
          }
        }
      }
    }
  }
  EXPECT_GT(outcomes[true], 20);
  EXPECT_GT(outcomes[false], 20);
}

TEST(GroupSampling, AGroupSmallerThanABatchRepeatsItsOwnMembers) {
  const GroupSampling strategy(index_of({0, 0, 1, -1}));
  const OrderKey key{.seed = 1, .epoch = 0, .step_samples = 5, .fetch_samples = 5};
  EXPECT_EQ(strategy.length(key), 10);
  const auto order = order_of(strategy, key);
  std::multiset<std::int64_t> real;
  for (const std::int64_t s : order) {
    if (s >= 0) real.insert(s);
  }
  EXPECT_THAT(real, ::testing::ElementsAre(0, 1, 2));
  for (std::size_t begin = 0; begin < 10; begin += 5) {
    std::set<bool> is_two;
    for (std::size_t i = begin; i < begin + 5; ++i)
      is_two.insert((order[i] < 0 ? ~order[i] : order[i]) == 2);
    EXPECT_EQ(is_two.size(), 1u);
  }
}

}  // namespace
}  // namespace cellfeed::sampling
