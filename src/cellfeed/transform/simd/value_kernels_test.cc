// Value kernels of every instruction set against double and long double arithmetic.
#include "cellfeed/transform/simd/value_kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

#include "cellfeed/testing/each_target.h"

namespace cellfeed::transform {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::size_t kLengths[] = {0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65, 100, 1023};

template <typename T>
std::vector<T> random_values(std::size_t n) {
  std::mt19937 random(7);
  std::exponential_distribution<T> values(T{1} / 20);
  std::vector<T> out(n);
  for (auto& v : out) v = values(random);
  return out;
}

// The distance to the exact result, in units of the last place of the nearest T.
template <typename T>
double ulps(T got, long double exact) {
  const auto nearest = static_cast<T>(exact);
  const int exponent = std::max(std::ilogb(nearest), std::numeric_limits<T>::min_exponent - 1);
  const long double unit = std::ldexp(1.0L, exponent - (std::numeric_limits<T>::digits - 1));
  return static_cast<double>(std::abs(static_cast<long double>(got) - exact) / unit);
}

template <typename T>
void expect_log1p_within(const std::vector<T>& values, double limit) {
  auto out = values;
  log1p_values(std::span<T>(out), T{1}, T{1});
  double worst = 0;
  T worst_at = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const long double exact = sizeof(T) == 4 ? std::log1p(static_cast<double>(values[i]))
                                             : std::log1p(static_cast<long double>(values[i]));
    const double error = ulps(out[i], exact);
    if (!(error <= worst)) {
      worst = error;
      worst_at = values[i];
    }
  }
  EXPECT_LE(worst, limit) << "at " << worst_at;
  ::testing::Test::RecordProperty("worst_ulp", std::to_string(worst));
}

TEST(ValueKernels, SumIsInDouble) {
  for_each_target([] {
    for (const std::size_t n : kLengths) {
      auto values = random_values<float>(n);
      const double expected = std::accumulate(values.begin(), values.end(), 0.0);
      EXPECT_NEAR(sum_values(std::span<const float>(values)), expected, 1e-12 * expected);
      const std::vector<double> wide(values.begin(), values.end());
      EXPECT_NEAR(sum_values(std::span<const double>(wide)), expected, 1e-12 * expected);
    }
  });
}

TEST(ValueKernels, SumOfCountsIsExact) {
  std::vector<float> counts(1001);
  std::iota(counts.begin(), counts.end(), 16'000'000.0f);
  for_each_target(
      [&] { EXPECT_EQ(sum_values(std::span<const float>(counts)), 1001 * 16'000'500.0); });
}

TEST(ValueKernels, ScaleMultipliesEveryValueAndNoOther) {
  for_each_target([] {
    for (const std::size_t n : kLengths) {
      auto values = random_values<float>(n);
      values.push_back(-1.0f);
      auto out = values;
      scale_values(std::span<float>(out.data(), n), 3.5f);
      for (std::size_t i = 0; i < n; ++i) EXPECT_EQ(out[i], values[i] * 3.5f);
      EXPECT_EQ(out.back(), -1.0f);
    }
  });
}

// All magnitudes there are, and counts; the limits are those that the header states.
TEST(ValueKernels, Log1pOfFloatsIsWithinItsStatedError) {
  std::vector<float> values(2048);
  std::iota(values.begin(), values.end(), 0.0f);
  for (std::uint32_t bits = 1; bits < 0x7f800000; bits += 9001)
    values.push_back(std::bit_cast<float>(bits));
  for (std::uint32_t bits = 0x80000001; bits < 0xbf800000; bits += 9001)
    values.push_back(std::bit_cast<float>(bits));
  for (std::uint32_t bits = 0x3c000000; bits < 0x41000000; bits += 409)
    values.push_back(std::bit_cast<float>(bits));
  for_each_target([&] { expect_log1p_within(values, 1.1); });
}

TEST(ValueKernels, Log1pOfDoublesIsWithinItsStatedError) {
  std::vector<double> values(2048);
  std::iota(values.begin(), values.end(), 0.0);
  for (std::uint64_t bits = 1; bits < 0x7fefffffffffffff; bits += 0x7fefffffffffffff / 99991)
    values.push_back(std::bit_cast<double>(bits));
  for (double v = 1e-6; v < 30; v *= 1.0001) values.push_back(v);
  for_each_target([&] { expect_log1p_within(values, 2.5); });
}

TEST(ValueKernels, Log1pKeepsToItsSpanAndScalesFirst) {
  for_each_target([] {
    for (const std::size_t n : kLengths) {
      auto values = random_values<float>(n);
      values.push_back(-1.0f);
      auto fused = values, scaled = values;
      log1p_values(std::span<float>(fused.data(), n), 0.37f, 1.25f);
      scale_values(std::span<float>(scaled.data(), n), 0.37f);
      log1p_values(std::span<float>(scaled.data(), n), 1.0f, 1.25f);
      EXPECT_EQ(fused, scaled) << n;
      EXPECT_EQ(fused.back(), -1.0f);
    }
  });
}

template <typename T>
void expect_limits_of_log1p() {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  std::vector<T> values{-1, kInfinity, -2,     -kInfinity, std::numeric_limits<T>::quiet_NaN(),
                        0,  1,         -T{0.5}};
  EXPECT_FALSE(log1p_values(std::span<T>(values), T{1}, T{1}));
  EXPECT_EQ(values[0], -kInfinity);
  EXPECT_EQ(values[1], kInfinity);
  for (const int i : {2, 3, 4}) EXPECT_TRUE(std::isnan(values[i])) << i << ": " << values[i];
  EXPECT_EQ(values[5], T{0});
  EXPECT_NEAR(values[6], std::log(2.0), 1e-6);
  EXPECT_NEAR(values[7], std::log(0.5), 1e-6);
}

// A value without a logarithm is found wherever it stands; what is no number or infinite is none.
template <typename T>
void expect_missing_logarithms_to_be_said() {
  constexpr std::size_t kCount = 70;
  for (std::size_t bad = 0; bad <= kCount; ++bad) {
    std::vector<T> values(kCount, T{3});
    values[5] = std::numeric_limits<T>::quiet_NaN();
    values[60] = std::numeric_limits<T>::infinity();
    if (bad < kCount) values[bad] = T{-0.5};
    EXPECT_EQ(log1p_values(std::span<T>(values), T{2}, T{1}), bad == kCount) << bad;
  }
}

TEST(ValueKernels, Log1pAtItsLimitsIsThatOfTheCLibrary) {
  for_each_target([] {
    expect_limits_of_log1p<float>();
    expect_limits_of_log1p<double>();
    expect_missing_logarithms_to_be_said<float>();
    expect_missing_logarithms_to_be_said<double>();
  });
}

}  // namespace
}  // namespace cellfeed::transform
