#include "cellfeed/convert/simulate/simulate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "cellfeed/convert/simulate/thinning.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::column_texts;
using testing::read_back;
using testing::ReadBack;
using testing::SmallAtlas;
using testing::TempDir;

SimulateOptions simulate_options(const std::string& like, const std::string& output) {
  SimulateOptions options;
  options.input = testing::cells_of({like}, {.make_unique = true});
  options.output = output;
  options.n_cells = 500;
  options.threads = 2;
  return options;
}

TEST(Simulate, CellsAreThinnedCopiesOfTheRowsTheyName) {
  const TempDir dir;
  const std::string like = SmallAtlas().write(dir.file("like.h5ad"));
  EXPECT_TRUE(simulate(simulate_options(like, dir.file("out.h5ad"))).has_counts);
  const ReadBack real = read_back(like), made = read_back(dir.file("out.h5ad"));
  ASSERT_EQ(made.rows.size(), 500);
  EXPECT_EQ(made.genes, real.genes);
  EXPECT_EQ(made.dtype, real.dtype);
  const auto sources = column_texts(*made.obs, "source_cell");
  const auto types = column_texts(*made.obs, "cell_type"),
             real_types = column_texts(*real.obs, "cell_type");
  double kept = 0, had = 0;
  std::set<std::string> distinct(sources.begin(), sources.end());
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    const auto source = static_cast<std::size_t>(std::stoll(sources[i]));
    EXPECT_EQ(types[i], real_types[source]);
    for (const auto& [gene, value] : real.rows[source]) had += value;
    for (const auto& [gene, value] : made.rows[i]) {
      kept += value;
      ASSERT_TRUE(real.rows[source].contains(gene));
      EXPECT_LE(value, real.rows[source].at(gene));
      EXPECT_GT(value, 0);
    }
  }
  EXPECT_NEAR(kept / had, 0.85, 0.02);
  EXPECT_GT(distinct.size(), 90) << "500 draws of 100 cells";
}

TEST(Simulate, TheSeedDecidesAndTheThreadsDoNot) {
  const TempDir dir;
  const std::string like = SmallAtlas({.n_cells = 300}).write(dir.file("like.h5ad"));
  SimulateOptions options = simulate_options(like, dir.file("a.h5ad"));
  options.threads = 1;
  simulate(options);
  options.threads = 3;
  options.memory_budget = exec::kMinMemoryBudget;
  options.output = dir.file("b.h5ad");
  simulate(options);
  options.seed = 1;
  options.output = dir.file("c.h5ad");
  simulate(options);
  const ReadBack a = read_back(dir.file("a.h5ad")), b = read_back(dir.file("b.h5ad"));
  EXPECT_EQ(a.rows, b.rows);
  EXPECT_TRUE(a.obs->Equals(*b.obs));
  EXPECT_NE(a.rows, read_back(dir.file("c.h5ad")).rows);
}

TEST(Simulate, OrdersByLabelAndBySource) {
  const TempDir dir;
  const std::string like = SmallAtlas().write(dir.file("like.h5ad"));
  SimulateOptions options = simulate_options(like, dir.file("label.h5ad"));
  options.order = "cell_type";
  simulate(options);
  const auto labels = column_texts(*read_back(dir.file("label.h5ad")).obs, "cell_type");
  int runs = 1;
  for (std::size_t i = 1; i < labels.size(); ++i) runs += labels[i] != labels[i - 1] ? 1 : 0;
  EXPECT_EQ(runs, 4) << "three labels that occur, and cells without one";

  options.order = "source";
  options.output = dir.file("source.h5ad");
  simulate(options);
  std::vector<long long> sources;
  for (const auto& text : column_texts(*read_back(dir.file("source.h5ad")).obs, "source_cell"))
    sources.push_back(std::stoll(text));
  EXPECT_TRUE(std::is_sorted(sources.begin(), sources.end()));
  EXPECT_GT(std::set(sources.begin(), sources.end()).size(), 90);

  options.order = "no_such_column";
  EXPECT_THROW(simulate(options), Error);
}

TEST(Simulate, SplitsOverFiles) {
  const TempDir dir;
  const std::string like = SmallAtlas().write(dir.file("like.h5ad"));
  SimulateOptions options = simulate_options(like, dir.file("all.h5ad"));
  simulate(options);
  options.output = dir.file("part.h5ad");
  options.n_files = 3;
  const SimulateResult result = simulate(options);
  ASSERT_EQ(result.files.size(), 3);
  EXPECT_EQ(result.files[2], dir.file("part_2.h5ad"));
  std::vector<testing::Row> rows;
  for (const auto& file : result.files) {
    const auto part = read_back(file).rows;
    rows.insert(rows.end(), part.begin(), part.end());
  }
  EXPECT_EQ(rows, read_back(dir.file("all.h5ad")).rows);
  EXPECT_THROW(simulate(options), Error) << "the files exist";
}

TEST(Simulate, ValuesThatAreNotCountsAreKeptOrDroppedWhole) {
  const TempDir dir;
  const std::string like = SmallAtlas({.whole_numbers = false}).write(dir.file("like.h5ad"));
  EXPECT_FALSE(simulate(simulate_options(like, dir.file("out.h5ad"))).has_counts);
  const ReadBack real = read_back(like), made = read_back(dir.file("out.h5ad"));
  const auto sources = column_texts(*made.obs, "source_cell");
  double kept = 0, had = 0;
  for (std::size_t i = 0; i < made.rows.size(); ++i) {
    const auto& source = real.rows[static_cast<std::size_t>(std::stoll(sources[i]))];
    had += static_cast<double>(source.size());
    kept += static_cast<double>(made.rows[i].size());
    for (const auto& [gene, value] : made.rows[i]) EXPECT_EQ(value, source.at(gene));
  }
  EXPECT_NEAR(kept / had, 0.85, 0.02);
}

TEST(Simulate, RefusesValuesThatCannotBeCounts) {
  const TempDir dir;
  SmallAtlas negative, missing;
  negative.values[7] = -3;
  missing.values[7] = std::nan("");
  EXPECT_THROW(simulate(simulate_options(negative.write(dir.file("n.h5ad")), dir.file("o.h5ad"))),
               Error);
  EXPECT_THROW(simulate(simulate_options(missing.write(dir.file("m.h5ad")), dir.file("o.h5ad"))),
               Error);
  EXPECT_FALSE(std::filesystem::exists(dir.file("o.h5ad")));
}

// Moments of n - Binomial(n, q) on every branch: bits, inversion, rejection. Six standard errors: a
// false alarm in 1e8.
TEST(Thinning, HasTheMomentsOfABinomial) {
  const sampling::RandomStream stream(3, 0, sampling::Purpose::kSimulatedThinning);
  for (const auto& [n, q] : std::vector<std::pair<std::int64_t, double>>{{1, 0.3},
                                                                         {16, 0.2},
                                                                         {17, 0.3},
                                                                         {100, 0.01},
                                                                         {100, 0.3},
                                                                         {5000, 0.15},
                                                                         {1'000'000'000, 0.3}}) {
    constexpr int kDraws = 40000;
    double sum = 0, sum_of_squares = 0;
    const double mean = static_cast<double>(n) * (1 - q);
    const double variance = static_cast<double>(n) * q * (1 - q);
    for (int i = 0; i < kDraws; ++i) {
      WordSource words(stream, static_cast<std::uint64_t>(i));
      const std::int64_t kept = thin_count(n, q, words);
      ASSERT_GE(kept, 0);
      ASSERT_LE(kept, n);
      const double off = static_cast<double>(kept) - mean;
      sum += off;
      sum_of_squares += off * off;
    }
    EXPECT_NEAR(sum / kDraws, 0, 6 * std::sqrt(variance / kDraws)) << n << " " << q;
    const double kurtosis = 3 + (1 - 6 * q * (1 - q)) / variance;
    EXPECT_NEAR(sum_of_squares / kDraws / variance, 1, 6 * std::sqrt((kurtosis - 1) / kDraws))
        << n << " " << q;
  }
  WordSource words(stream, 0);
  EXPECT_EQ(thin_count(0, 0.3, words), 0);
  EXPECT_EQ(thin_count(1000, 0.0, words), 1000);
}

}  // namespace
}  // namespace cellfeed::convert
