// rank_genes against a stable sort by comparison.
#include "cellfeed/transform/rank_genes.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace cellfeed::transform {
namespace {

template <typename T>
std::vector<std::int32_t> ranked(std::vector<T> values, std::size_t room) {
  std::vector<std::int32_t> indices(values.size());
  for (std::size_t i = 0; i < indices.size(); ++i)
    indices[i] = static_cast<std::int32_t>(3 * i + 1);
  Row row{
      indices.data(), values.data(), dtype_of<T>(), static_cast<std::int32_t>(values.size()), 0, 0};
  std::vector<std::int32_t> genes(room + 1, -5);
  const std::size_t written = rank_genes(row, std::span(genes).first(room));
  EXPECT_EQ(genes[written], -5);
  genes.resize(written);
  return genes;
}

template <typename T>
std::vector<std::int32_t> sorted_by_comparison(const std::vector<T>& values, std::size_t room) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    if (values[b] != values[b]) return values[a] == values[a];
    return values[a] > values[b];
  });
  std::vector<std::int32_t> genes;
  for (std::size_t i = 0; i < std::min(room, order.size()); ++i)
    genes.push_back(static_cast<std::int32_t>(3 * order[i] + 1));
  return genes;
}

template <typename T>
class RankGenes : public ::testing::Test {};
using ValueTypes = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(RankGenes, ValueTypes);

// From rows where all tie to digits of every pass.
TYPED_TEST(RankGenes, CountsOfAnySizeAreAsAStableSortHasThem) {
  std::mt19937_64 random(1);
  for (const std::size_t n : {0, 1, 2, 3, 4, 5, 7, 63, 64, 1000, 5001})
    for (const int bits : {0, 1, 4, 10, 11, 12, 22, 23, 31}) {
      std::vector<TypeParam> values(n);
      for (auto& value : values)
        value = static_cast<TypeParam>(1 + random() % (std::uint64_t{1} << bits) / 2);
      for (const std::size_t room : {std::size_t{0}, n / 2, n, n + 9})
        EXPECT_EQ(ranked(values, room), sorted_by_comparison(values, room))
            << n << " values of " << bits << " bits";
    }
}

TYPED_TEST(RankGenes, NegativeAndExtremeValuesAreInOrder) {
  using Limits = std::numeric_limits<TypeParam>;
  std::mt19937_64 random(2);
  std::vector<TypeParam> values{Limits::lowest(), Limits::max(), 0, -1, 1,
                                Limits::min(),    Limits::max()};
  for (int i = 0; i < 500; ++i)
    values.push_back(static_cast<TypeParam>(static_cast<std::int32_t>(random())));
  EXPECT_EQ(ranked(values, values.size()), sorted_by_comparison(values, values.size()));
}

TEST(RankGenes, FractionsInfinitiesAndNaNAreInOrder) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  std::vector<float> values{0.5f,       NAN,  -0.0f,  0.0f,    kInfinity,
                            -kInfinity, -NAN, 1e-42f, -1e-42f, 0.5f};
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 1e3f);
  for (int i = 0; i < 2000; ++i) values.push_back(std::round(normal(random)) / 8);
  EXPECT_EQ(ranked(values, values.size()), sorted_by_comparison(values, values.size()));
  const std::vector<double> wide(values.begin(), values.end());
  EXPECT_EQ(ranked(wide, wide.size()), sorted_by_comparison(wide, wide.size()));
}

}  // namespace
}  // namespace cellfeed::transform
