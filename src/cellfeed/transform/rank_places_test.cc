// rank_places of every instruction set against a sort by comparison.
#include "cellfeed/transform/rank_places.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>
#include <vector>

#include "cellfeed/testing/each_target.h"

namespace cellfeed::transform {
namespace {

using cellfeed::testing::for_each_target;

void expect_sorted(const std::vector<float>& values, const std::string& what) {
  std::vector<std::uint32_t> expected(values.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expected[i] = static_cast<std::uint32_t>(i);
  std::stable_sort(expected.begin(), expected.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
  for_each_target([&] {
    std::vector<std::uint32_t> places(values.size());
    rank_places(values, places);
    for (std::size_t i = 0; i < places.size(); ++i)
      ASSERT_EQ(places[i], expected[i]) << what << ", place " << i;
  });
}

constexpr std::size_t kSizes[] = {0, 1, 2, 15, 16, 17, 63, 1000, 2049, 16'384, 16'385, 20'001};

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

TEST(RankPlaces, EverySizeAroundVectorsAndWhatIsSortedInThem) {
  std::mt19937_64 random(3);
  std::lognormal_distribution<float> spread(0, 2);
  for (std::size_t n = 0; n < 280; ++n) {
    std::vector<float> values(n);
    for (auto& value : values) value = spread(random);
    expect_sorted(values, std::to_string(n) + " values");
  }
}

TEST(RankPlaces, OrdersThatPivotsDislike) {
  constexpr std::size_t kCount = 5000;
  std::vector<float> rising(kCount), pipe(kCount), saw(kCount);
  for (std::size_t i = 0; i < kCount; ++i) {
    rising[i] = 1 + static_cast<float>(i);
    pipe[i] = 1 + static_cast<float>(std::min(i, kCount - i));
    saw[i] = 1 + static_cast<float>(i % (kCount / 9));
  }
  expect_sorted(rising, "rising");
  expect_sorted({rising.rbegin(), rising.rend()}, "falling");
  expect_sorted(pipe, "pipe");
  expect_sorted(saw, "saw");
  expect_sorted(std::vector<float>(kCount, 7), "equal");
  // What is in the places that a pivot is chosen from is smaller than the rest, again and again.
  std::vector<float> last;
  for (std::size_t n = 9; last.size() < 4000; n = last.size() + 9) {
    std::vector<float> next(n);
    std::vector<bool> is_taken(n, false);
    for (std::size_t k = 0; k < 9; ++k) is_taken[k * (n / 9)] = true;
    for (std::size_t i = 0, k = 0, small = 0; i < n; ++i)
      next[i] = is_taken[i] ? 1 + static_cast<float>(small++) : last[k++] + 9;
    last = next;
  }
  expect_sorted(last, "small where pivots are chosen");
  expect_sorted({last.rbegin(), last.rend()}, "the same from behind");
}

// Keys have room for fewer bits than tell these apart: ties of two, of many, and at both ends.
TEST(RankPlaces, ValuesWhoseKeysAreAlikeAreCompared) {
  std::mt19937_64 random(4);
  for (const std::size_t n : {16, 17, 33, 1000, 16'384})
    for (const std::uint32_t low_bits : {1, 3, 9, 12})
      for (const std::uint32_t exponents : {1, 40, 250}) {
        std::vector<float> values(n);
        for (auto& value : values) {
          const auto upper = static_cast<std::uint32_t>(random() % exponents) << 23;
          const auto lower = static_cast<std::uint32_t>(random() % (1u << low_bits));
          value = std::bit_cast<float>(upper | lower);
        }
        expect_sorted(values, std::to_string(n) + " values of " + std::to_string(low_bits) +
                                  " lower bits and " + std::to_string(exponents) + " exponents");
      }
}

}  // namespace
}  // namespace cellfeed::transform
