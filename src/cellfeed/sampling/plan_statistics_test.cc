// Estimates of a plan against values known in closed form.
#include "cellfeed/sampling/plan_statistics.h"

#include <gtest/gtest.h>

#include <cmath>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"

namespace cellfeed::sampling {
namespace {

// 64 labels in runs of 1,000 rows.
std::int32_t run_label(std::int64_t row) { return static_cast<std::int32_t>(row / 1000); }

Plan plan_of(std::shared_ptr<const Strategy> strategy, std::int64_t batch_size = 256) {
  return Plan(std::move(strategy), {.batch_size = batch_size, .fetch_factor = 4}, 0, 0);
}

// The plug-in estimate of b draws from K equal classes is below log2(K) by about (K - 1) / (2 b ln
// 2).
double expected_bits(double classes, double draws) {
  return std::log2(classes) - (classes - 1) / (2 * draws * std::log(2.0));
}

TEST(LabelEntropy, StreamingSeesOneLabelAtATime) {
  const LabelEntropy e =
      expected_label_entropy(plan_of(std::make_shared<Streaming>(64'000)), run_label);
  EXPECT_LT(e.batch_bits, 0.3);
  EXPECT_NEAR(e.random_bits, expected_bits(64, 256), 0.05);
  EXPECT_EQ(e.batches, 64);
}

TEST(LabelEntropy, TrueRandomEqualsRandom) {
  const LabelEntropy e =
      expected_label_entropy(plan_of(std::make_shared<BlockShuffling>(64'000, 1)), run_label);
  EXPECT_NEAR(e.batch_bits, e.random_bits, 0.05);
}

TEST(LabelEntropy, BlocksAsLongAsBatchesSeeOnlyTheBlocksOfAFetchGroup) {
  // 4 blocks of one label each in a fetch group: 2 bits at most.
  const LabelEntropy e =
      expected_label_entropy(plan_of(std::make_shared<BlockShuffling>(64'000, 256)), run_label);
  EXPECT_GT(e.batch_bits, 1.5);
  EXPECT_LT(e.batch_bits, 2.4);
}

TEST(LabelEntropy, MissingLabelsCountNowhere) {
  const auto strategy = std::make_shared<BlockShuffling>(64'000, 1);
  const LabelEntropy none =
      expected_label_entropy(plan_of(strategy), [](std::int64_t) { return -1; });
  EXPECT_EQ(none.batches, 0);
  EXPECT_EQ(none.batch_bits, 0);
  const LabelEntropy two = expected_label_entropy(
      plan_of(strategy), [](std::int64_t row) { return static_cast<std::int32_t>(row % 3) - 1; });
  EXPECT_NEAR(two.batch_bits, 1, 0.02);
}

TEST(FetchShape, CountsRunsAndChunks) {
  const FetchShape stream = expected_fetch_shape(plan_of(std::make_shared<Streaming>(65'536)), 100);
  EXPECT_EQ(stream.rows, 1024);
  EXPECT_EQ(stream.runs, 1);
  EXPECT_NEAR(stream.chunk_rows, 1124, 80);
  EXPECT_EQ(stream.fetches, 16);
  const FetchShape blocks =
      expected_fetch_shape(plan_of(std::make_shared<BlockShuffling>(65'536, 16)), 64);
  EXPECT_EQ(blocks.distinct_rows, 1024);
  EXPECT_NEAR(blocks.runs, 63, 2);  // 64 blocks, a few of them neighbours
  EXPECT_NEAR(blocks.chunk_rows, 64 * 64, 64 * 5);
  EXPECT_THROW(expected_fetch_shape(plan_of(std::make_shared<Streaming>(10)), 0), Error);
}

}  // namespace
}  // namespace cellfeed::sampling
