// Test vectors of docs/sampling.md, printed by tests/python/sampling_reference.py: an order must
// never change.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <vector>

#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/block_weighted_sampling.h"
#include "cellfeed/sampling/class_balanced_sampling.h"
#include "cellfeed/sampling/group_sampling.h"
#include "cellfeed/sampling/plan.h"
#include "cellfeed/sampling/streaming.h"
#include "cellfeed/sampling/weighted_cell_sampler.h"
#include "cellfeed/testing/strategy_conformance.h"

namespace cellfeed::sampling {
namespace {

using Rows = std::vector<std::int64_t>;

constexpr OrderKey kKey{.seed = 42, .epoch = 3, .step_samples = 4, .fetch_samples = 16};

std::vector<double> weights() {
  std::vector<double> out(50);
  for (std::size_t i = 0; i < 50; ++i) out[i] = i % 5 == 4 ? 0.0 : 1.0 + static_cast<double>(i % 7);
  return out;
}

std::shared_ptr<const LabelIndex> labels() {
  std::vector<std::int32_t> codes(50);
  for (int i = 0; i < 50; ++i) codes[static_cast<std::size_t>(i)] = i % 9 == 8 ? -1 : i * i % 4;
  return std::make_shared<const LabelIndex>(50, codes);
}

void expect_order(const Strategy& strategy, const OrderKey& key, const Rows& expected) {
  EXPECT_EQ(testing::order_of(strategy, key, 0, 1, static_cast<std::int64_t>(expected.size())),
            expected);
}

TEST(Golden, Streaming) {
  expect_order(Streaming(50, {}, true), kKey,
               {10, 6, 15, 11, 7, 0, 14, 9, 4, 8, 5, 3, 2, 1, 13, 12, 16, 23, 21, 20});
}

TEST(Golden, StreamingBuffer) {
  expect_order(Streaming(50, {}, false, 6), kKey,
               {1, 2, 3, 0, 5, 4, 7, 6, 11, 9, 8, 10, 15, 12, 17, 14, 13, 16, 22, 20});
}

TEST(Golden, Blocks) {
  expect_order(BlockShuffling(1003, 8), kKey, {906, 302, 911, 907, 303, 296, 910, 905, 300, 904,
                                               301, 299, 298, 297, 909, 908, 304, 311, 309, 308});
}

TEST(Golden, BlocksDropLast) {
  expect_order(BlockShuffling(50, 8, {}, true), kKey,
               {2, 14, 7, 3, 15, 8, 6, 1, 12, 0, 13, 11, 10, 9, 5, 4, 16, 23, 21, 20});
}

TEST(Golden, Single) {
  expect_order(BlockShuffling(1000, 1), kKey, {481, 769, 498, 448, 232, 208, 249, 764, 161, 537,
                                               640, 403, 702, 115, 27,  862, 147, 460, 949, 436});
}

TEST(Golden, SingleHuge) {
  expect_order(BlockShuffling(10'000'000'007, 1), kKey,
               {2231835020, 8560193929, 2702517033, 3776600933, 904938241, 720375206, 33228321,
                7179270872, 8617144941, 5417757095, 285643684, 3271249185});
}

TEST(Golden, BlocksHuge) {
  expect_order(BlockShuffling(10'000'000'007, 64), kKey,
               {6243967242, 6243967238, 6243967247, 6243967243, 6243967239, 6243967232, 6243967246,
                6243967241, 6243967236, 6243967240, 6243967237, 6243967235});
}

TEST(Golden, GroupHuge) {
  expect_order(Streaming(100'000, {}, true),
               {.seed = 42, .epoch = 3, .step_samples = 4, .fetch_samples = 70'000},
               {57931, 8618, 12357, 45754, 49186, 59693, 36529, 46112, 61529, 16299, 53610, 34345});
}

TEST(Golden, Weighted) {
  expect_order(BlockWeightedSampling(50, weights()), kKey,
               {30, 6, 27, 28, 6, 6, 30, 31, 6, 27, 6, 0, 3, 0, 27, 26, 2, 1, 5, 3});
}

TEST(Golden, WeightedSingle) {
  expect_order(BlockWeightedSampling(50, weights(), {.block_size = 1}), kKey,
               {2, 26, 10, 33, 26, 17, 10, 31, 40, 43, 17, 25, 48, 27, 37, 18, 36, 47, 3, 3});
}

TEST(Golden, WeightedRounds) {
  expect_order(BlockWeightedSampling(
                   50, weights(),
                   {.block_size = 4, .total_size = 35, .replace = false, .sampling_size = 15}),
               kKey, {32, 20, 17, 37, 22, 3,  47, 26, 12, 23, 17, 10, 6,  5, 40, 38, 20, 41,
                      31, 30, 46, 33, 6,  23, 48, 3,  27, 26, 11, 12, 45, 5, 40, 30, 41});
}

TEST(Golden, Balanced) {
  expect_order(ClassBalancedSampling(labels(), {.block_size = 4, .smoothing = 0.5}), kKey,
               {22, 4, 7, 24, 6, 42, 5, 20, 0, 18, 2, 0, 48, 46, 3, 1, 39, 40, 36, 34});
}

TEST(Golden, BalancedSingle) {
  expect_order(ClassBalancedSampling(labels(), {.block_size = 1}), kKey,
               {42, 0, 18, 1, 39, 34, 48, 39, 23, 49, 36, 37, 21, 23, 37, 24, 11, 7, 42, 12});
}

TEST(Golden, Curriculum) {
  expect_order(WeightedCellSampler(labels(), {.curriculum_warmup_epochs = 5}), kKey,
               {45, 1, 21, 0, 36, 37, 47, 39, 46, 47, 39, 34, 40, 20, 25, 27, 22, 16, 42, 12});
}

TEST(Golden, CurriculumOnce) {
  expect_order(WeightedCellSampler(labels(), {.replacement = false, .curriculum_warmup_epochs = 5}),
               kKey, {27, 1, 20, 46, 37, 3, 42, 14, 23, 41, 33, 2, 6, 45, 28, 9, 36, 38, 22, 12});
}

TEST(Golden, Groups) {
  expect_order(GroupSampling(labels()), kKey, {9,  1,  45, 7,  40, 18, 46, 42, 19, 3,  41, -50,
                                               34, 30, 20, 14, 49, 47, 33, 31, 32, 12, -1, -7});
}

Rows rows_of_rank_two(Partition partition) {
  const Plan plan(
      std::make_shared<BlockShuffling>(50, 8),
      {.batch_size = 4, .fetch_factor = 3, .rank = 2, .world_size = 3, .partition = partition}, 42,
      3);
  Rows rows;
  BatchPlan batch;
  for (std::int64_t b = 0; b < plan.n_batches(); ++b) {
    plan.batch(b, batch);
    rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
  }
  return rows;
}

TEST(Golden, PlanInterleave) {
  EXPECT_EQ(rows_of_rank_two(Partition::kInterleave),
            (Rows{21, 18, 6, 35, 33, 29, 8, 20, 14, 25, 13, 27, 48, 47, 39, 46, 26}));
}

TEST(Golden, PlanGroup) {
  EXPECT_EQ(rows_of_rank_two(Partition::kGroup),
            (Rows{35, 28, 30, 29, 33, 34, 25, 24, 27, 31, 26, 32, 47, 37, 39, 36, 0}));
}

}  // namespace
}  // namespace cellfeed::sampling
