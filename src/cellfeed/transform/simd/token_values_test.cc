// Kernels of token values, of every instruction set, against plain loops.
#include "cellfeed/transform/simd/token_values.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "cellfeed/testing/each_target.h"

namespace cellfeed::transform {
namespace {

using cellfeed::testing::for_each_target;
using Limits = std::numeric_limits<float>;

constexpr std::size_t kMostValues = 70;  // some vectors of any machine, and what is left

// One value of each kind at each place of rows of each size.
TEST(TokenValues, AreNumbersOfTheirKindWhereverAnotherStands) {
  const float values[] = {1,
                          Limits::denorm_min(),
                          Limits::max(),
                          0,
                          -0.0f,
                          -Limits::denorm_min(),
                          -1,
                          Limits::infinity(),
                          -Limits::infinity(),
                          Limits::quiet_NaN(),
                          -Limits::quiet_NaN()};
  for_each_target([&] {
    for (const float value : values) {
      const bool is_expression = value >= 0 && value <= Limits::max();
      for (std::size_t n = 1; n <= kMostValues; ++n)
        for (std::size_t at = 0; at < n; ++at) {
          std::vector<float> row(n, 3.0f);
          row[at] = value;
          ASSERT_EQ(are_positive(row), is_expression && value > 0) << value << " at " << at;
          ASSERT_EQ(are_expression(row), is_expression) << value << " at " << at;
        }
    }
    EXPECT_TRUE(are_positive({}));
    EXPECT_TRUE(are_expression({}));
  });
}

TEST(TokenValues, AreDividedByWhatTheirColumnsSay) {
  for_each_target([&] {
    for (std::size_t n = 0; n <= kMostValues; ++n) {
      std::vector<float> values(n), quotients(n);
      std::vector<TokenColumn> columns(n);
      std::vector<std::int32_t> ids(n);
      for (std::size_t i = 0; i < n; ++i) {
        values[i] = static_cast<float>(i + 1);
        columns[i] = {static_cast<std::int32_t>(7 * i - 9), 0.3f + static_cast<float>(i % 5)};
      }
      ASSERT_TRUE(divide_values(values, columns, quotients, ids));
      for (std::size_t i = 0; i < n; ++i) {
        ASSERT_EQ(quotients[i], values[i] / columns[i].divisor);
        ASSERT_EQ(ids[i], columns[i].id);
      }
      const std::vector<float> expected = quotients;
      ASSERT_TRUE(divide_values(values, columns, values, ids));
      ASSERT_EQ(values, expected);
    }
  });
}

TEST(TokenValues, QuotientsThatNoFloatHoldsAreSaid) {
  for_each_target([&] {
    for (std::size_t at = 0; at < kMostValues; ++at) {
      std::vector<float> values(kMostValues, 1.0f), quotients(kMostValues);
      const std::vector<TokenColumn> columns(kMostValues, TokenColumn{4, 1e-3f});
      std::vector<std::int32_t> ids(kMostValues);
      values[at] = Limits::max();
      ASSERT_FALSE(divide_values(values, columns, quotients, ids)) << at;
      values[at] = Limits::denorm_min();
      ASSERT_TRUE(divide_values(values, columns, quotients, ids)) << at;
    }
  });
}

TEST(TokenValues, AreFilledAndNothingBehindThem) {
  for_each_target([&] {
    for (std::size_t n = 0; n <= kMostValues; ++n) {
      std::vector<std::int64_t> values(n + 1, 5);
      fill_values(std::span(values).first(n), -100);
      for (std::size_t i = 0; i < n; ++i) ASSERT_EQ(values[i], -100);
      ASSERT_EQ(values[n], 5);
    }
  });
}

}  // namespace
}  // namespace cellfeed::transform
