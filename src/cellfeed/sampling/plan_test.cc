// Plan: the union over ranks is exactly the order; equal steps; padding; resume, also at another
// world size.
#include "cellfeed/sampling/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/block_shuffling.h"
#include "cellfeed/sampling/streaming.h"

namespace cellfeed::sampling {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

using Counts = std::map<std::int64_t, int>;

struct Dealt {
  Counts real;
  std::vector<std::int64_t> padding;
  std::vector<std::int64_t> batch_sizes;
  std::vector<std::vector<std::int64_t>> steps;  // rows of step s, sorted
};

std::shared_ptr<const Strategy> blocks(std::int64_t n, std::int64_t block = 4) {
  return std::make_shared<BlockShuffling>(n, block);
}

// All ranks of a run, up to `steps` steps of it.
Dealt deal(const std::shared_ptr<const Strategy>& strategy, PlanOptions options,
           std::int64_t steps = -1) {
  Dealt dealt;
  for (options.rank = 0; options.rank < options.world_size; ++options.rank) {
    const Plan plan(strategy, options, 11, 3);
    const std::int64_t end = steps < 0 ? plan.n_batches() : steps;
    std::vector<std::int64_t> sizes;
    dealt.steps.resize(static_cast<std::size_t>(end));
    BatchPlan batch;
    for (std::int64_t b = 0; b < end; ++b) {
      plan.batch(b, batch);
      EXPECT_EQ(static_cast<std::int64_t>(batch.rows.size()), plan.batch_rows(b));
      sizes.push_back(plan.batch_rows(b));
      for (std::size_t i = 0; i < batch.rows.size(); ++i) {
        if (!batch.is_padding.empty() && batch.is_padding[i] != 0) {
          dealt.padding.push_back(batch.rows[i]);
        } else {
          ++dealt.real[batch.rows[i]];
          dealt.steps[static_cast<std::size_t>(b)].push_back(batch.rows[i]);
        }
      }
    }
    if (options.rank == 0) dealt.batch_sizes = sizes;
    EXPECT_EQ(sizes, dealt.batch_sizes) << "rank " << options.rank << " has other batches";
  }
  for (auto& step : dealt.steps) std::sort(step.begin(), step.end());
  return dealt;
}

std::string describe(std::int64_t n, const PlanOptions& o) {
  return fmt::format("n {} W {} b {} f {} partition {} remainder {} drop_last {}", n, o.world_size,
                     o.batch_size, o.fetch_factor, static_cast<int>(o.partition),
                     static_cast<int>(o.remainder), o.drop_last);
}

PlanOptions random_options(std::mt19937& rng) {
  const auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
  };
  PlanOptions o;
  o.batch_size = pick(1, 20);
  o.fetch_factor = pick(1, 6);
  o.world_size = pick(1, 7);
  o.partition = pick(0, 1) == 0 ? Partition::kInterleave : Partition::kGroup;
  o.remainder = pick(0, 1) == 0 ? Remainder::kPad : Remainder::kDrop;
  o.drop_last = pick(0, 3) == 0;
  return o;
}

TEST(Plan, UnionOverRanksIsExactlyTheOrder) {
  std::mt19937 rng(1);
  for (int trial = 0; trial < 1500; ++trial) {
    const PlanOptions o = random_options(rng);
    const std::int64_t n = std::uniform_int_distribution<std::int64_t>(1, 700)(rng);
    SCOPED_TRACE(describe(n, o));
    const Dealt dealt = deal(blocks(n, std::uniform_int_distribution<std::int64_t>(1, 30)(rng)), o);
    for (const auto& [row, count] : dealt.real) ASSERT_EQ(count, 1) << "row " << row;
    std::int64_t share =
        o.remainder == Remainder::kPad ? (n + o.world_size - 1) / o.world_size : n / o.world_size;
    const std::int64_t all = share * o.world_size;
    if (o.drop_last) share -= share % o.batch_size;
    std::int64_t rows = 0;
    for (const std::int64_t size : dealt.batch_sizes) rows += size;
    ASSERT_EQ(rows, share);
    const auto real = static_cast<std::int64_t>(dealt.real.size());
    ASSERT_EQ(real + static_cast<std::int64_t>(dealt.padding.size()), share * o.world_size);
    if (share * o.world_size == all) {
      ASSERT_EQ(real, std::min(n, all));
    }
  }
}

TEST(Plan, AThousandSamplesOnFourRanksAre250Each) {
  for (const Partition partition : {Partition::kInterleave, Partition::kGroup}) {
    for (const std::int64_t b : {1, 7, 64, 250, 1000}) {
      for (const std::int64_t f : {1, 16, 64}) {
        PlanOptions o{.batch_size = b, .fetch_factor = f, .world_size = 4, .partition = partition};
        const Dealt dealt = deal(blocks(1000), o);
        EXPECT_EQ(
            std::accumulate(dealt.batch_sizes.begin(), dealt.batch_sizes.end(), std::int64_t{0}),
            250);
        EXPECT_EQ(dealt.real.size(), 1000u);
        EXPECT_TRUE(dealt.padding.empty());
      }
    }
  }
}

TEST(Plan, InterleaveGivesRankRPositionsCongruentR) {
  const auto strategy = std::make_shared<Streaming>(23);
  BatchPlan batch;
  const Plan plan(strategy, {.batch_size = 3, .rank = 1, .world_size = 4}, 0, 0);
  EXPECT_EQ(plan.n_batches(), 2);
  plan.batch(0, batch);
  EXPECT_THAT(batch.rows, ElementsAre(1, 5, 9));
  plan.batch(1, batch);
  EXPECT_THAT(batch.rows, ElementsAre(13, 17, 21));
  EXPECT_TRUE(batch.is_padding.empty());
  const Plan last(strategy, {.batch_size = 3, .rank = 3, .world_size = 4}, 0, 0);
  last.batch(1, batch);
  EXPECT_THAT(batch.rows, ElementsAre(15, 19, 0));
  EXPECT_THAT(batch.is_padding, ElementsAre(0, 0, 1));
}

TEST(Plan, KeepingTheGlobalBatchKeepsEveryStepForEveryWorld) {
  for (const std::int64_t n : {240, 243, 700}) {
    const auto steps =
        deal(blocks(n), {.batch_size = 24, .fetch_factor = 3, .world_size = 1}).steps;
    for (const std::int64_t w : {2, 3, 4, 6, 24}) {
      const auto other =
          deal(blocks(n), {.batch_size = 24 / w, .fetch_factor = 3, .world_size = w}).steps;
      ASSERT_EQ(steps, other) << "n " << n << " W " << w;
    }
  }
}

TEST(Plan, GroupDealsWholeFetchGroups) {
  const auto strategy = std::make_shared<Streaming>(100);
  // Groups of 6: rank r takes group r, r + 3, ...; 100 = 5 rounds of 18 + 10.
  const Plan plan(strategy,
                  {.batch_size = 2,
                   .fetch_factor = 3,
                   .rank = 1,
                   .world_size = 3,
                   .partition = Partition::kGroup},
                  0, 0);
  BatchPlan batch;
  std::vector<std::int64_t> rows;
  for (std::int64_t b = 0; b < plan.n_batches(); ++b) {
    plan.batch(b, batch);
    rows.insert(rows.end(), batch.rows.begin(), batch.rows.end());
    EXPECT_EQ(plan.fetch_group(b), b < 15 ? b / 3 : 5);
  }
  EXPECT_THAT(std::vector(rows.begin(), rows.begin() + 12),
              ElementsAre(6, 7, 8, 9, 10, 11, 24, 25, 26, 27, 28, 29));
  EXPECT_THAT(std::vector(rows.begin() + 30, rows.end()), ElementsAre(92, 93, 98, 99));
}

TEST(Plan, MoreRanksThanSamplesPads) {
  for (const Partition partition : {Partition::kInterleave, Partition::kGroup}) {
    for (std::int64_t n = 1; n <= 3; ++n) {
      const Dealt dealt = deal(
          blocks(n), {.batch_size = 5, .fetch_factor = 2, .world_size = 4, .partition = partition});
      EXPECT_THAT(dealt.batch_sizes, ElementsAre(1));
      EXPECT_EQ(static_cast<std::int64_t>(dealt.real.size()), n);
      EXPECT_EQ(static_cast<std::int64_t>(dealt.padding.size()), 4 - n);
    }
  }
}

// Consume some steps with one world, the rest with up to two others: every sample once, whatever
// the partition.
TEST(Plan, ResumesWithExactlyTheRestAtAnotherWorldSize) {
  std::mt19937 rng(2);
  for (int trial = 0; trial < 600; ++trial) {
    PlanOptions o = random_options(rng);
    o.drop_last = false;
    o.remainder = Remainder::kPad;
    const std::int64_t n = std::uniform_int_distribution<std::int64_t>(1, 500)(rng);
    const auto strategy = blocks(n);
    SCOPED_TRACE(describe(n, o));
    Counts seen;
    for (int leg = 0; leg < 3; ++leg) {
      const Plan plan(strategy, o, 11, 3);
      const std::int64_t steps =
          leg == 2 ? plan.n_batches()
                   : std::uniform_int_distribution<std::int64_t>(0, plan.n_batches())(rng);
      for (const auto& [row, count] : deal(strategy, o, steps).real) seen[row] += count;
      const PlanOptions next = random_options(rng);
      o.consumed = plan.consumed_after(steps);
      o.order_step_samples = plan.options().order_step_samples;
      o.order_fetch_samples = plan.options().order_fetch_samples;
      o.order_batch_size = plan.options().order_batch_size;
      o.world_size = next.world_size;
      o.batch_size = next.batch_size;
      o.fetch_factor = next.fetch_factor;
    }
    ASSERT_EQ(o.consumed, n);
    ASSERT_EQ(static_cast<std::int64_t>(seen.size()), n);
    for (const auto& [row, count] : seen) ASSERT_EQ(count, 1) << "row " << row;
  }
}

TEST(Plan, ResumingAtAnyStepGivesTheSameRemainingBatches) {
  for (const Partition partition : {Partition::kInterleave, Partition::kGroup}) {
    PlanOptions o{
        .batch_size = 5, .fetch_factor = 3, .rank = 1, .world_size = 3, .partition = partition};
    const Plan whole(blocks(197), o, 4, 9);
    for (std::int64_t done = 0; done <= whole.n_batches(); ++done) {
      o.consumed = whole.consumed_after(done);
      const Plan rest(blocks(197), o, 4, 9);
      ASSERT_EQ(rest.n_batches(), whole.n_batches() - done);
      BatchPlan a;
      BatchPlan b;
      for (std::int64_t i = 0; i < rest.n_batches(); ++i) {
        whole.batch(done + i, a);
        rest.batch(i, b);
        ASSERT_EQ(a.rows, b.rows);
        ASSERT_EQ(a.is_padding, b.is_padding);
        ASSERT_EQ(whole.fetch_group(done + i), rest.fetch_group(i));
      }
    }
  }
}

TEST(Plan, TenBillionSamples) {
  const auto strategy = blocks(10'000'000'007, 64);
  const Plan plan(strategy, {.batch_size = 1024, .fetch_factor = 16, .rank = 7, .world_size = 8}, 0,
                  0);
  EXPECT_EQ(plan.n_batches(), (10'000'000'007 / 8 + 1 + 1023) / 1024);
  BatchPlan batch;
  plan.batch(plan.n_batches() - 1, batch);
  EXPECT_EQ(static_cast<std::int64_t>(batch.rows.size()), plan.batch_rows(plan.n_batches() - 1));
  EXPECT_EQ(plan.consumed_after(plan.n_batches()), 10'000'000'007);
}

TEST(Plan, NamesBadInput) {
  const auto error = [](PlanOptions o, std::int64_t n = 10) -> std::string {
    try {
      const Plan plan(blocks(n), o, 0, 0);
    } catch (const Error& e) {
      return e.what();
    }
    return "no error";
  };
  EXPECT_THAT(error({.batch_size = 0}), HasSubstr("batch_size is 0"));
  EXPECT_THAT(error({.fetch_factor = 0}), HasSubstr("fetch_factor is 0"));
  EXPECT_THAT(error({.world_size = 0}), HasSubstr("world_size is 0"));
  EXPECT_THAT(error({.rank = 4, .world_size = 4}),
              HasSubstr("rank is 4; with world_size 4 it must be 0 to 3"));
  EXPECT_THAT(error({.rank = -1}), HasSubstr("rank is -1"));
  EXPECT_THAT(error({.world_size = 4, .remainder = Remainder::kError}),
              HasSubstr("10 samples do not divide over world_size 4: 2 are left over"));
  EXPECT_THAT(error({.world_size = 5, .remainder = Remainder::kError}), HasSubstr("no error"));
  EXPECT_THAT(error({.consumed = 11}), HasSubstr("consumed is 11"));
  EXPECT_THAT(error({.consumed = -1}), HasSubstr("consumed is -1"));
  EXPECT_THAT(error({.batch_size = std::int64_t{1} << 40, .world_size = 1 << 30}),
              HasSubstr("too large"));
  EXPECT_THAT(
      error({.partition = Partition::kGroup, .order_fetch_samples = 7, .order_batch_size = 2}),
      HasSubstr("must be multiples of order_batch_size 2"));
  const Plan plan(blocks(10), {.batch_size = 4}, 0, 0);
  EXPECT_THROW(plan.batch_rows(3), Error);
  EXPECT_THROW(plan.batch_rows(-1), Error);
  EXPECT_THROW(plan.consumed_after(4), Error);
}

TEST(PlanNames, AutoDealsWholeGroupsOnlyWhereRanksWouldShareChunks) {
  for (const bool is_chunked : {false, true}) {
    for (const std::int64_t ranks : {1, 2}) {
      EXPECT_EQ(partition_from_name("auto", is_chunked, ranks),
                is_chunked && ranks == 2 ? Partition::kGroup : Partition::kInterleave);
      for (const Partition partition : {Partition::kInterleave, Partition::kGroup})
        EXPECT_EQ(partition_from_name(partition_name(partition), is_chunked, ranks), partition);
    }
  }
  EXPECT_EQ(remainder_from_name("pad"), Remainder::kPad);
  EXPECT_EQ(remainder_from_name("drop"), Remainder::kDrop);
  EXPECT_EQ(remainder_from_name("error"), Remainder::kError);
  EXPECT_THROW(partition_from_name("grp", false, 1), Error);
  EXPECT_THROW(remainder_from_name(""), Error);
}

}  // namespace
}  // namespace cellfeed::sampling
