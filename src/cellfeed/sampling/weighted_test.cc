// Weighted strategies: conformance, marginals against p, tables, bad input.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <set>

#include "cellfeed/sampling/block_weighted_sampling.h"
#include "cellfeed/sampling/class_balanced_sampling.h"
#include "cellfeed/sampling/weighted_cell_sampler.h"
#include "cellfeed/testing/chi_square.h"
#include "cellfeed/testing/label_index.h"
#include "cellfeed/testing/strategy_conformance.h"
#include "cellfeed/testing/thrown_error.h"

namespace cellfeed::sampling {
namespace {

using ::cellfeed::testing::check_strategy;
using ::cellfeed::testing::chi_square;
using ::cellfeed::testing::chi_square_limit;
using ::cellfeed::testing::error_of;
using ::cellfeed::testing::index_of;
using ::cellfeed::testing::order_of;
using ::testing::HasSubstr;

std::vector<double> random_weights(std::size_t n, unsigned seed = 1) {
  std::mt19937 rng(seed);
  std::vector<double> weights(n);
  for (double& w : weights) {
    const double u = std::generate_canonical<double, 53>(rng);
    w = u < 0.2 ? 0 : std::exp(3 * u);
  }
  return weights;
}

std::vector<std::int32_t> random_labels(std::size_t n, std::int32_t classes, unsigned seed = 1) {
  std::mt19937 rng(seed);
  std::vector<std::int32_t> labels(n);
  for (auto& label : labels) {
    label = static_cast<std::int32_t>(
        std::min(rng() % static_cast<unsigned>(classes), rng() % static_cast<unsigned>(classes)));
    if (rng() % 10 == 0) label = -1;
  }
  return labels;
}

std::vector<double> class_frequencies(const std::vector<std::int32_t>& labels) {
  std::vector<double> counts;
  for (const std::int32_t l : labels) {
    if (l < 0) continue;
    if (static_cast<std::size_t>(l) >= counts.size())
      counts.resize(static_cast<std::size_t>(l) + 1);
    ++counts[static_cast<std::size_t>(l)];
  }
  return counts;
}

// Counts every row over `epochs` epochs against p. Draws that share a block are correlated, so that
// the statistic of `draws_a_block` draws is that much wider in the worst case: it is divided by it.
void expect_marginals(const Strategy& strategy, const std::vector<double>& p, std::uint64_t epochs,
                      double draws_a_block = 1, std::uint64_t first_epoch = 0) {
  std::vector<std::int64_t> counts(p.size());
  double drawn = 0;
  for (std::uint64_t epoch = first_epoch; epoch < first_epoch + epochs; ++epoch) {
    const auto order =
        order_of(strategy, {.seed = 3, .epoch = epoch, .step_samples = 32, .fetch_samples = 256});
    for (const std::int64_t row : order) ++counts[static_cast<std::size_t>(row)];
    drawn += static_cast<double>(order.size());
  }
  const double sum = std::accumulate(p.begin(), p.end(), 0.0);
  std::vector<double> expected;
  for (const double v : p) expected.push_back(v / sum * drawn);
  const auto positive = std::count_if(p.begin(), p.end(), [](double v) { return v > 0; });
  EXPECT_LT(chi_square(counts, expected) / draws_a_block,
            chi_square_limit(static_cast<double>(positive - 1)));
}

// Probability of every item of a table, summed over its cells, each found by bisection on the
// second word.
std::vector<double> table_probabilities(const AliasTable& table) {
  std::vector<double> p(static_cast<std::size_t>(table.size()));
  for (std::int64_t cell = 0; cell < table.size(); ++cell) {
    const auto at =
        static_cast<std::uint64_t>((static_cast<unsigned __int128>(2 * cell + 1) << 63) /
                                   static_cast<unsigned __int128>(table.size()));
    // The item changes once along the second word: find where by bisection, exactly.
    const std::int64_t low_item = table.draw(at, 0);
    const std::int64_t high_item = table.draw(at, ~std::uint64_t{0});
    if (low_item == high_item) {
      p[static_cast<std::size_t>(low_item)] += 1;
      continue;
    }
    std::uint64_t low = 0;
    std::uint64_t high = ~std::uint64_t{0};
    while (high - low > 1) {
      const std::uint64_t middle = low + (high - low) / 2;
      (table.draw(at, middle) == low_item ? low : high) = middle;
    }
    const double share = std::ldexp(static_cast<double>(high), -64);
    p[static_cast<std::size_t>(low_item)] += share;
    p[static_cast<std::size_t>(high_item)] += 1 - share;
  }
  for (double& v : p) v /= static_cast<double>(table.size());
  return p;
}

TEST(AliasTable, HoldsTheWeightsToRoundingAndNeverDrawsZero) {
  std::vector<std::vector<double>> cases = {
      {1}, {0, 3}, {3, 0}, {1, 1, 1, 1}, {0, 0, 0, 1e-300}, {1e-9, 1, 1e9}};
  for (unsigned seed = 0; seed < 50; ++seed)
    cases.push_back(random_weights(1 + seed * 7, seed + 100));
  cases.push_back(random_weights(100'000, 5));
  std::vector<double> dominated(100'000, 1e-3);
  dominated[77] = 1e6;
  cases.push_back(dominated);
  for (const auto& weights : cases) {
    const double sum = std::accumulate(weights.begin(), weights.end(), 0.0);
    if (sum == 0) continue;
    const auto p = table_probabilities(AliasTable(weights));
    const double mean = sum / static_cast<double>(weights.size());
    for (std::size_t i = 0; i < weights.size(); ++i) {
      if (weights[i] == 0) {
        ASSERT_EQ(p[i], 0.0);
      } else {
        ASSERT_NEAR(p[i] / (weights[i] / sum), 1,
                    1e-15 * (static_cast<double>(weights.size()) + mean / weights[i]))
            << i << " of " << weights.size();
      }
    }
  }
}

TEST(BlockWeightedSampling, Conforms) {
  const auto weights = random_weights(1003);
  for (const std::int64_t block : {1, 2, 8, 64, 5000}) {
    for (const bool is_weighted : {false, true}) {
      for (const bool replace : {true, false}) {
        SCOPED_TRACE(::testing::Message()
                     << "block " << block << " weighted " << is_weighted << " replace " << replace);
        check_strategy(
            [&] {
              return std::make_shared<BlockWeightedSampling>(
                  1003,
                  is_weighted ? std::optional<std::span<const double>>(weights) : std::nullopt,
                  BlockWeightedOptions{
                      .block_size = block,
                      .total_size = 1500,
                      .replace = replace,
                      .sampling_size = replace ? std::nullopt : std::optional<std::int64_t>(400)});
            },
            {});
      }
    }
  }
}

TEST(BlockWeightedSampling, MarginalsAreTheWeights) {
  auto weights = random_weights(203);
  expect_marginals(BlockWeightedSampling(203, weights, {.block_size = 1, .total_size = 100'000}),
                   weights, 4);
  // A block of 8 draws repeats a sample up to 8 times.
  expect_marginals(BlockWeightedSampling(203, weights, {.block_size = 8, .total_size = 100'000}),
                   weights, 8, 2.5);
  expect_marginals(BlockWeightedSampling(203, {}, {.block_size = 8, .total_size = 100'000}),
                   std::vector<double>(203, 1.0), 8, 2.5);
  expect_marginals(BlockWeightedSampling(203, {}, {.block_size = 1, .total_size = 100'000}),
                   std::vector<double>(203, 1.0), 4);
}

// Position by position, not only over the epoch: each of 16 positions over 20,000 epochs.
TEST(BlockWeightedSampling, EveryPositionHasTheMarginal) {
  const std::vector<double> weights = {1, 0, 2, 5, 0, 0, 1, 3, 4, 4, 0.5};
  const BlockWeightedSampling strategy(11, weights, {.block_size = 4, .total_size = 16});
  std::vector<std::vector<std::int64_t>> counts(16, std::vector<std::int64_t>(11));
  for (std::uint64_t epoch = 0; epoch < 20'000; ++epoch) {
    const auto order =
        order_of(strategy, {.seed = 8, .epoch = epoch, .step_samples = 4, .fetch_samples = 8});
    for (std::size_t i = 0; i < 16; ++i) ++counts[i][static_cast<std::size_t>(order[i])];
  }
  std::vector<double> expected;
  for (const double w : weights) expected.push_back(w / 20.5 * 20'000);
  for (const auto& c : counts) EXPECT_LT(chi_square(c, expected), chi_square_limit(7));
}

TEST(BlockWeightedSampling, WeightsStayWithTheirSamples) {
  const Indices indices{{9, 2, 5, 2}};
  const std::vector<double> by_index = {1, 0, 2, 5};
  std::vector<double> p(10, 0.0);
  p[9] = 1;
  p[2] = 5;
  p[5] = 2;
  expect_marginals(
      BlockWeightedSampling(10, by_index, {.block_size = 1, .total_size = 20'000}, indices), p, 1);
  expect_marginals(
      BlockWeightedSampling(10, by_index, {.block_size = 2, .total_size = 20'000}, indices), p, 1,
      2);
  std::vector<double> by_row(10, 100.0);
  by_row[9] = 1;
  by_row[2] = 2.5;  // twice in indices
  by_row[5] = 2;
  expect_marginals(
      BlockWeightedSampling(10, by_row, {.block_size = 1, .total_size = 20'000}, indices), p, 1);
}

TEST(BlockWeightedSampling, WithoutReplacementDrawsNoSampleTwiceInARound) {
  const auto weights = random_weights(500);
  const auto positive =
      std::count_if(weights.begin(), weights.end(), [](double w) { return w > 0; });
  const BlockWeightedSampling all(500, weights, {.block_size = 8, .replace = false});
  const auto order = order_of(all, {.seed = 1, .epoch = 0, .step_samples = 1, .fetch_samples = 1});
  EXPECT_EQ(static_cast<std::ptrdiff_t>(order.size()), positive);
  EXPECT_EQ(static_cast<std::ptrdiff_t>(std::set(order.begin(), order.end()).size()), positive);
  const BlockWeightedSampling some(
      500, weights, {.block_size = 8, .total_size = 250, .replace = false, .sampling_size = 100});
  const auto rounds =
      order_of(some, {.seed = 1, .epoch = 0, .step_samples = 1, .fetch_samples = 1});
  for (std::size_t begin = 0; begin < 250; begin += 100) {
    const std::size_t end = std::min<std::size_t>(begin + 100, 250);
    const std::set<std::int64_t> round(rounds.begin() + static_cast<std::ptrdiff_t>(begin),
                                       rounds.begin() + static_cast<std::ptrdiff_t>(end));
    EXPECT_EQ(round.size(), end - begin);
    for (const std::int64_t row : round) EXPECT_GT(weights[static_cast<std::size_t>(row)], 0);
  }
}

// Two draws of {1, 2, 3} without replacement: the six ordered outcomes have known probabilities; as
// sets, three.
TEST(BlockWeightedSampling, WithoutReplacementIsSequentialWeightedSampling) {
  const std::vector<double> w = {1, 2, 3};
  const BlockWeightedSampling strategy(3, w, {.block_size = 1, .total_size = 2, .replace = false});
  std::vector<std::int64_t> missing(3);
  for (std::uint64_t epoch = 0; epoch < 30'000; ++epoch) {
    const auto order =
        order_of(strategy, {.seed = 1, .epoch = epoch, .step_samples = 1, .fetch_samples = 1});
    ++missing[static_cast<std::size_t>(3 - order[0] - order[1])];
  }
  const auto both = [&](std::size_t a, std::size_t b) {
    return w[a] / 6 * w[b] / (6 - w[a]) + w[b] / 6 * w[a] / (6 - w[b]);
  };
  EXPECT_LT(chi_square(missing, {30'000 * both(1, 2), 30'000 * both(0, 2), 30'000 * both(0, 1)}),
            chi_square_limit(2));
}

TEST(BlockWeightedSampling, WithoutReplacementTakesTinyAndHugeWeights) {
  // -log(u) / w would be infinite for the first and a denormal for the second.
  for (const double scale : {1e-307, 1.0, 1e306}) {
    const std::vector<double> w = {1 * scale, 2 * scale, 3 * scale};
    const BlockWeightedSampling strategy(3, w,
                                         {.block_size = 1, .total_size = 1, .replace = false});
    const BlockWeightedSampling plain(3, std::vector<double>{1, 2, 3},
                                      {.block_size = 1, .total_size = 1, .replace = false});
    std::vector<std::int64_t> drawn(3);
    for (std::uint64_t epoch = 0; epoch < 3'000; ++epoch) {
      const OrderKey key{.seed = 1, .epoch = epoch, .step_samples = 1, .fetch_samples = 1};
      ++drawn[static_cast<std::size_t>(order_of(strategy, key)[0])];
      ASSERT_EQ(order_of(strategy, key), order_of(plain, key));
    }
    EXPECT_LT(chi_square(drawn, {500, 1000, 1500}), chi_square_limit(2));
  }
  // Once the heavy one is drawn, the light ones are drawn by their weights, not by their number.
  const std::vector<double> w = {1e-250, 3e-250, 1};
  const BlockWeightedSampling strategy(3, w, {.block_size = 1, .total_size = 2, .replace = false});
  std::vector<std::int64_t> missing(3);
  for (std::uint64_t epoch = 0; epoch < 3'000; ++epoch) {
    const auto order =
        order_of(strategy, {.seed = 1, .epoch = epoch, .step_samples = 1, .fetch_samples = 1});
    ++missing[static_cast<std::size_t>(3 - order[0] - order[1])];
  }
  EXPECT_EQ(missing[2], 0);
  missing.pop_back();
  EXPECT_LT(chi_square(missing, {2250, 750}), chi_square_limit(1));
}

TEST(LabelIndex, RunsAndMembersAgree) {
  std::vector<std::int32_t> labels;
  std::vector<LabelRun> runs;
  std::mt19937 rng(4);
  for (int i = 0; i < 300; ++i) {
    runs.push_back(
        {static_cast<std::int32_t>(rng() % 8) - 1, static_cast<std::int64_t>(rng() % 30)});
    labels.insert(labels.end(), static_cast<std::size_t>(runs.back().count), runs.back().code);
  }
  const auto n = static_cast<std::int64_t>(labels.size());
  const LabelIndex from_codes(n, labels);
  const LabelIndex from_runs(n, runs);
  EXPECT_TRUE(from_codes.is_runs());
  EXPECT_EQ(from_codes.fingerprint(), from_runs.fingerprint());
  for (std::int64_t c = 0; c < from_runs.n_classes(); ++c) {
    std::int64_t k = 0;
    for (std::int64_t row = 0; row < n; ++row) {
      if (labels[static_cast<std::size_t>(row)] != from_runs.code(c)) continue;
      ASSERT_EQ(from_runs.row(c, k), row);
      ASSERT_EQ(from_codes.row(c, k++), row);
    }
    EXPECT_EQ(from_runs.count(c), k);
  }
  const auto mixed = random_labels(1000, 5);
  const LabelIndex members(1000, mixed);
  EXPECT_FALSE(members.is_runs());
  for (std::int64_t k = 0; k < members.n_labelled(); ++k) {
    ASSERT_EQ(mixed[static_cast<std::size_t>(members.row(k))], members.code(members.class_of(k)));
  }
}

TEST(LabelIndex, ABillionSamplesInRunsTakeNoTable) {
  std::vector<LabelRun> runs;
  for (std::int32_t c = 0; c < 1000; ++c) runs.push_back({c, 1'000'000});
  const auto labels = std::make_shared<const LabelIndex>(1'000'000'000, runs);
  EXPECT_LT(labels->bytes(), 100'000);
  const ClassBalancedSampling strategy(labels, {.block_size = 64});
  const auto part =
      order_of(strategy, {.seed = 1, .epoch = 0, .step_samples = 1024, .fetch_samples = 16384},
               999'000'000, 1, 1000);
  EXPECT_EQ(part.size(), 1000u);
  for (const std::int64_t row : part) EXPECT_LT(row, 1'000'000'000);
}

TEST(LabelIndex, AMemberTakesFourBytes) {
  const auto labels = random_labels(200'000, 50);
  const LabelIndex index(200'000, labels);
  const auto n_members = std::ranges::count_if(labels, [](auto label) { return label >= 0; });
  EXPECT_GE(index.bytes(), 4 * n_members);
  EXPECT_LE(index.bytes(), 4 * n_members + 50 * 40);
}

TEST(ClassBalancedSampling, Conforms) {
  const auto labels = random_labels(1003, 7);
  for (const std::int64_t block : {1, 8, 64}) {
    check_strategy(
        [&] {
          return std::make_shared<ClassBalancedSampling>(index_of(labels),
                                                         ClassBalancedOptions{.block_size = block});
        },
        {});
  }
  check_strategy(
      [&] {
        return std::make_shared<ClassBalancedSampling>(
            index_of(labels), ClassBalancedOptions{.replace = false, .sampling_size = 100});
      },
      {});
}

TEST(ClassBalancedSampling, MarginalsFollowTheSmoothing) {
  const auto labels = random_labels(307, 5);
  const auto counts = class_frequencies(labels);
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  for (const double smoothing : {0.0, 0.1, 5.0}) {
    std::vector<double> p_class;
    for (const double c : counts)
      p_class.push_back(c / (c + smoothing * n / static_cast<double>(counts.size())));
    std::vector<double> p;
    for (const std::int32_t l : labels) {
      p.push_back(
          l < 0 ? 0 : p_class[static_cast<std::size_t>(l)] / counts[static_cast<std::size_t>(l)]);
    }
    SCOPED_TRACE(smoothing);
    expect_marginals(
        ClassBalancedSampling(index_of(labels),
                              {.block_size = 1, .total_size = 100'000, .smoothing = smoothing}),
        p, 2);
    // Members of a block are neighbours: their counts rise and fall together.
    expect_marginals(
        ClassBalancedSampling(index_of(labels),
                              {.block_size = 4, .total_size = 100'000, .smoothing = smoothing}),
        p, 8, 2.5);
  }
}

TEST(ClassBalancedSampling, ExtremeSmoothingLeavesFrequencies) {
  const auto labels = random_labels(307, 5);
  const auto counts = class_frequencies(labels);
  std::vector<double> p;
  for (const std::int32_t l : labels) p.push_back(l < 0 ? 0 : 1);
  for (const double smoothing : {1e300, 1e308, std::numeric_limits<double>::max()}) {
    SCOPED_TRACE(smoothing);
    expect_marginals(
        ClassBalancedSampling(index_of(labels),
                              {.block_size = 1, .total_size = 100'000, .smoothing = smoothing}),
        p, 2);
  }
  for (const double smoothing : {5e-324, 1e-310, 1e-200}) {
    const OrderKey key{.seed = 4, .epoch = 0, .step_samples = 8, .fetch_samples = 16};
    EXPECT_EQ(order_of(ClassBalancedSampling(index_of(labels), {.smoothing = smoothing}), key),
              order_of(ClassBalancedSampling(index_of(labels)), key));
  }
}

TEST(ClassBalancedSampling, WithoutReplacementDrawsEveryRepeat) {
  // Labels one per row, in runs and not; row 1 is there twice, rows 6 and 8 are not.
  for (const std::vector<std::int32_t>& labels :
       {std::vector<std::int32_t>{0, 1, 0, -1, 1, 0, 1, 0, 1},
        std::vector<std::int32_t>{0, 1, 1, 1, 1, 1, 1, 1, 0}}) {
    const Indices indices = std::vector<std::int64_t>{7, 1, 0, 1, 2, 3, 4, 5};
    const ClassBalancedSampling strategy(index_of(labels, indices),
                                         {.block_size = 2, .replace = false});
    auto order = order_of(strategy, {.seed = 1, .epoch = 0, .step_samples = 1, .fetch_samples = 1});
    std::sort(order.begin(), order.end());
    std::vector<std::int64_t> expected;
    for (const std::int64_t row : {0, 1, 1, 2, 3, 4, 5, 7}) {
      if (labels[static_cast<std::size_t>(row)] >= 0) expected.push_back(row);
    }
    EXPECT_EQ(order, expected);
  }
}

TEST(ClassBalancedSampling, WithoutReplacementTheFirstDrawIsBalanced) {
  const std::vector<std::int32_t> labels = {0, 0, 0, 1, -1, 2, 2};
  const ClassBalancedSampling strategy(
      index_of(labels), {.block_size = 1, .total_size = 1, .replace = false, .sampling_size = 1});
  std::vector<std::int64_t> classes(3);
  for (std::uint64_t epoch = 0; epoch < 3'000; ++epoch) {
    const auto order =
        order_of(strategy, {.seed = 1, .epoch = epoch, .step_samples = 1, .fetch_samples = 1});
    ++classes[static_cast<std::size_t>(labels[static_cast<std::size_t>(order[0])])];
  }
  EXPECT_LT(chi_square(classes, {1000, 1000, 1000}), chi_square_limit(2));
}

TEST(WeightedCellSampler, Conforms) {
  const auto labels = random_labels(1003, 7);
  check_strategy([&] { return std::make_shared<WeightedCellSampler>(index_of(labels)); }, {});
  std::vector<std::int64_t> labelled;
  for (std::int64_t i = 0; i < 1003; ++i) {
    if (labels[static_cast<std::size_t>(i)] >= 0) labelled.push_back(i);
  }
  check_strategy(
      [&] {
        return std::make_shared<WeightedCellSampler>(index_of(labels),
                                                     WeightedCellOptions{.replacement = false});
      },
      {.draws_each_once = true, .expected_rows = labelled});
}

TEST(WeightedCellSampler, TheCurriculumGoesFromUniformToBalanced) {
  const auto labels = random_labels(307, 5);
  const auto counts = class_frequencies(labels);
  const double n = std::accumulate(counts.begin(), counts.end(), 0.0);
  const WeightedCellSampler warm(index_of(labels),
                                 {.curriculum_warmup_epochs = 4, .total_size = 200'000});
  const WeightedCellSampler at_once(index_of(labels), {.total_size = 200'000});
  EXPECT_EQ(at_once.curriculum(0), 1.0);
  for (const std::uint64_t epoch : {0, 2, 4, 9}) {
    const double a = std::min(1.0, static_cast<double>(epoch) / 4);
    EXPECT_EQ(warm.curriculum(epoch), a);
    std::vector<double> p;
    for (const std::int32_t l : labels) {
      p.push_back(l < 0 ? 0
                        : (1 - a) / n + a / (static_cast<double>(counts.size()) *
                                             counts[static_cast<std::size_t>(l)]));
    }
    expect_marginals(warm, p, 1, 1, epoch);
    if (a == 1.0) expect_marginals(at_once, p, 1);
  }
}

TEST(Weighted, TenBillionSamplesWithoutTables) {
  constexpr std::int64_t n = 10'000'000'007;
  const BlockWeightedSampling strategy(n, {}, {.block_size = 64});
  EXPECT_EQ(strategy.bytes(), 0);
  const auto part =
      order_of(strategy, {.seed = 1, .epoch = 0, .step_samples = 4096, .fetch_samples = 65536},
               n - 5000, 1, 5000);
  EXPECT_EQ(part.size(), 5000u);
  for (const std::int64_t row : part) {
    ASSERT_GE(row, 0);
    ASSERT_LT(row, n);
  }
}

TEST(Weighted, NamesBadInput) {
  const auto weighted = [](std::vector<double> w, BlockWeightedOptions o = {}, std::int64_t n = 3,
                           Indices i = {}) {
    return error_of([&] { BlockWeightedSampling(n, w, o, i); });
  };
  EXPECT_THAT(weighted({1, -2, 3}), HasSubstr("weights[1] is -2"));
  EXPECT_THAT(weighted({1, 2, std::nan("")}), HasSubstr("weights[2] is nan"));
  EXPECT_THAT(weighted({INFINITY, 2, 1}), HasSubstr("weights[0] is inf"));
  EXPECT_THAT(weighted({0, 0, 0}), HasSubstr("all 3 weights are zero"));
  EXPECT_THAT(weighted({1e308, 1e308, 1}), HasSubstr("out of the range of a double"));
  EXPECT_THAT(weighted({5e-324, 0, 0}), HasSubstr("out of the range of a double"));
  EXPECT_THAT(weighted({1, 2}), HasSubstr("weights has 2 entries, but the collection has 3 rows"));
  EXPECT_THAT(weighted({1}, {}, 3, Indices{{0, 1}}),
              HasSubstr("one per row of the collection (3) or one per index (2)"));
  EXPECT_THAT(weighted({1, 1}, {}, 3, Indices{{0, 3}}), HasSubstr("indices[1] is 3"));
  EXPECT_THAT(weighted({1, 2, 3}, {.block_size = 0}), HasSubstr("block_size is 0"));
  EXPECT_THAT(weighted({1, 2, 3}, {.total_size = 0}), HasSubstr("total_size is 0"));
  EXPECT_THAT(weighted({1, 2, 3}, {.sampling_size = 2}),
              HasSubstr("sampling_size is for draws without replacement"));
  EXPECT_THAT(weighted({1, 0, 3}, {.replace = false, .sampling_size = 3}),
              HasSubstr("more than the 2 samples that can be drawn"));
  EXPECT_THAT(weighted({1, 0, 1e-310}, {.replace = false}), HasSubstr("within a factor of 2^900"));
  const auto labels = [](std::vector<std::int32_t> l, std::int64_t n = 3) {
    return error_of([&] { LabelIndex(n, l); });
  };
  EXPECT_THAT(labels({0, -2, 1}), HasSubstr("entry 1 is -2"));
  EXPECT_THAT(labels({-1, -1, -1}), HasSubstr("all 3 are missing"));
  EXPECT_THAT(labels({0, 1}), HasSubstr("labels has 2 entries"));
  EXPECT_THAT(labels({0, 1, 2'000'000'000}), HasSubstr("must be codes 0 to K-1"));
  const std::vector<LabelRun> runs = {{0, 2}};
  EXPECT_THAT(error_of([&] { LabelIndex(3, runs); }), HasSubstr("cover 2 rows of 3"));
  EXPECT_THAT(error_of([&] { LabelIndex(1, runs); }),
              HasSubstr("run 0 of the labels has 2 rows after 0 of 1"));
  const auto index = index_of({0, 1, 1});
  EXPECT_THAT(error_of([&] { ClassBalancedSampling(index, {.smoothing = -1}); }),
              HasSubstr("smoothing is -1"));
  EXPECT_THAT(error_of([&] { ClassBalancedSampling(index, {.smoothing = std::nan("")}); }),
              HasSubstr("smoothing is nan"));
  EXPECT_THAT(error_of([&] { ClassBalancedSampling(index, {.smoothing = INFINITY}); }),
              HasSubstr("smoothing is inf"));
  EXPECT_THAT(error_of([&] { WeightedCellSampler(index, {.curriculum_warmup_epochs = -1}); }),
              HasSubstr("must not be negative"));
  EXPECT_THAT(
      error_of([&] { WeightedCellSampler(index, {.replacement = false, .total_size = 4}); }),
      HasSubstr("more than the 3 labelled"));
}

}  // namespace
}  // namespace cellfeed::sampling
