// rank_places against a sort by comparison.
#include "cellfeed/transform/rank_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

namespace cellfeed::transform {
namespace {

void expect_sorted(const std::vector<float>& values, const std::string& what) {
  std::vector<std::uint32_t> expected(values.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::uint32_t>(i);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  std::vector<std::uint32_t> places(values.size());
  rank_places(values, places);
  for (std::size_t i = 0; i < places.size(); ++i)
    ASSERT_EQ(places[i], expected[i]) << what << ", place " << i;
}

constexpr std::size_t kSizes[] = {0, 1, 2, 47, 48, 49, 63, 1000, 2049, 16'384, 16'385, 20'001};

TEST(RankPlaces, CountsOfAnySizeAreAsAStableSortHasThem) {
  std::mt19937_64 random(1);
  for (const std::size_t n : kSizes)
    for (const int bits : {0, 1, 4, 10, 16, 24}) {
      std::vector<float> values(n);
      for (auto& value : values)
        value = static_cast<float>(1 + random() % (std::uint64_t{1} << bits));
      expect_sorted(values, std::to_string(bits) + " bits");
    }
}

TEST(RankPlaces, FractionsOfAllMagnitudesAreInOrder) {
  std::mt19937_64 random(2);
  std::lognormal_distribution<float> spread(0, 20);
  std::uniform_real_distribution<float> narrow(1, 1.0001f);
  for (const std::size_t n : kSizes) {
    std::vector<float> wide(n), close(n), mixed(n);
    for (std::size_t i = 0; i < n; ++i) {
      wide[i] = std::min(spread(random), std::numeric_limits<float>::max());
      close[i] = narrow(random);
      mixed[i] = i % 2 == 0 ? wide[i] : close[i];
    }
    expect_sorted(wide, "wide");
    expect_sorted(close, "close");
    // One that is far from the others leaves nothing of them in the digits.
    close.push_back(std::numeric_limits<float>::max());
    close.push_back(std::numeric_limits<float>::denorm_min());
    expect_sorted(close, "close, with two far away");
    expect_sorted(mixed, "mixed");
  }
}

}  // namespace
}  // namespace cellfeed::transform
