#include "cellfeed/series/statistics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

namespace cellfeed::series {
namespace {

std::vector<double> numbers(std::size_t n, double offset) {
  std::mt19937_64 random(n);
  std::normal_distribution<double> normal(offset, 3);
  std::vector<double> values(n);
  for (double& value : values) value = random() % 11 == 0 ? NAN : normal(random);
  return values;
}

TEST(RowStatistics, AreThoseOfAllRowsAtOnce) {
  for (const double offset : {0.0, 1e9}) {
    const std::vector<double> values = numbers(5000, offset);
    RowStatistics all(1);
    ColumnStatistics parts;
    for (std::size_t begin = 0; begin < values.size(); begin += 777) {
      RowStatistics part(1);
      for (std::size_t i = begin; i < std::min(begin + 777, values.size()); ++i)
        part.add(number_rows(&values[i], 1, 1));
      parts.merge(part.finish()[0]);
    }
    long double sum = 0, squares = 0;
    std::int64_t n = 0;
    for (const double value : values) {
      all.add(number_rows(&value, 1, 1));
      if (std::isnan(value)) continue;
      sum += value;
      ++n;
    }
    for (const double value : values)
      if (!std::isnan(value)) squares += (value - sum / n) * (value - sum / n);
    const ColumnStatistics found = all.finish()[0];
    for (const ColumnStatistics& s : {found, parts}) {
      EXPECT_EQ(s.n, n);
      EXPECT_NEAR(s.mean, static_cast<double>(sum / n), 1e-12 * (1 + offset));
      EXPECT_NEAR(s.variance(), static_cast<double>(squares / n), 1e-6);
    }
  }
}

TEST(QuantileSearch, FindsWhatSortingFinds) {
  const double quantiles[] = {0, 0.25, 0.5, 0.75, 1};
  for (const std::size_t n : {1, 2, 7, 1000}) {
    std::vector<double> values = numbers(n, -1);
    values.push_back(-0.0);
    values.insert(values.end(), {4, 4, 4});
    std::vector<double> sorted;
    for (const double value : values)
      if (!std::isnan(value)) sorted.push_back(value);
    std::ranges::sort(sorted);
    const std::int64_t counts[] = {std::ssize(sorted)};
    QuantileSearch search(counts, quantiles);
    for (int pass = 0; pass < QuantileSearch::kPasses; ++pass) {
      QuantileSearch other = search;
      for (std::size_t i = 0; i < values.size(); ++i) (i % 2 ? search : other).add(0, values[i]);
      search.merge(other);
      search.end_pass();
    }
    for (std::size_t q = 0; q < 5; ++q) {
      const double at = quantiles[q] * static_cast<double>(sorted.size() - 1);
      const auto below = static_cast<std::size_t>(at);
      const double above = sorted[std::min(below + 1, sorted.size() - 1)];
      EXPECT_DOUBLE_EQ(search.quantile(0, q),
                       sorted[below] + (above - sorted[below]) * (at - std::floor(at)));
    }
  }
}

}  // namespace
}  // namespace cellfeed::series
