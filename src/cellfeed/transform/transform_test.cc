// Transforms against the formulas of numpy, in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>
#include <random>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"
#include "cellfeed/transform/simd/value_kernels.h"

namespace cellfeed::transform {
namespace {

std::vector<float> random_values(std::size_t n) {
  std::mt19937 random(7);
  std::exponential_distribution<float> values(0.05f);
  std::vector<float> out(n);
  for (auto& v : out) v = values(random);
  return out;
}

// Lengths around every vector width, where a tail could be lost or overrun.
class Kernels : public ::testing::TestWithParam<std::size_t> {};
INSTANTIATE_TEST_SUITE_P(Lengths, Kernels,
                         ::testing::Values(0, 1, 3, 7, 8, 9, 15, 16, 17, 31, 33, 64, 100, 1023));

TEST_P(Kernels, SumIsExactInDouble) {
  const auto values = random_values(GetParam());
  const double expected = std::accumulate(values.begin(), values.end(), 0.0);
  EXPECT_NEAR(sum_values(std::span<const float>(values)), expected, 1e-9 * (1 + expected));
  const std::vector<double> wide(values.begin(), values.end());
  EXPECT_NEAR(sum_values(std::span<const double>(wide)), expected, 1e-9 * (1 + expected));
}

TEST_P(Kernels, Log1pIsWithinTwoUlp) {
  const auto values = random_values(GetParam());
  auto out = values;
  out.push_back(-1.0f);  // a guard behind the span
  log1p_values(std::span<float>(out.data(), values.size()), 0.25f, 1.0f);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double exact = std::log1p(static_cast<double>(values[i] * 0.25f));
    const auto nearest = static_cast<float>(exact);
    EXPECT_LE(std::abs(static_cast<double>(out[i]) - exact),
              2.5 * static_cast<double>(std::nextafter(nearest, INFINITY) - nearest));
  }
  EXPECT_EQ(out.back(), -1.0f);
}

TEST_P(Kernels, ScaleMultipliesEveryValue) {
  const auto values = random_values(GetParam());
  auto out = values;
  scale_values(std::span<float>(out), 3.5f);
  for (std::size_t i = 0; i < values.size(); ++i) EXPECT_EQ(out[i], values[i] * 3.5f);
}

TEST(NormalizeTotal, UsesTheFullLibrarySize) {
  std::vector<std::int32_t> indices{0, 4};
  std::vector<float> values{3, 1};
  Row row{indices.data(), values.data(), DType::kF32, 2, 8.0, 0};
  NormalizeTotal(100).apply(row);
  EXPECT_FLOAT_EQ(values[0], 37.5f);
  EXPECT_FLOAT_EQ(values[1], 12.5f);
}

TEST(NormalizeTotal, LeavesCellsWithoutCountsAlone) {
  Row row{nullptr, nullptr, DType::kF32, 0, 0.0, 0};
  EXPECT_NO_THROW(NormalizeTotal().apply(row));
}

TEST(NormalizeTotal, RefusesWhatAreNotCounts) {
  std::vector<std::int32_t> indices{0};
  std::vector<float> values{NAN};
  Row row{indices.data(), values.data(), DType::kF32, 1, NAN, 42};
  EXPECT_THROW(NormalizeTotal().apply(row), Error);
  EXPECT_THROW(NormalizeTotal(0), Error);
  EXPECT_THROW(NormalizeTotal(-1), Error);
  EXPECT_THROW(NormalizeTotal(NAN), Error);
  EXPECT_THROW(Log1p(1), Error);
  EXPECT_THROW(Log1p(-2), Error);
}

TEST(SelectGenes, KeepsTheOrderAskedFor) {
  const matrix::GeneAxis axis{{"a", "b", "c", "d"}};
  const auto bound = SelectGenes({"d", "a", "c"}).bind(axis);
  std::vector<std::int32_t> indices{0, 1, 3};
  std::vector<double> values{1, 2, 4};
  Row row{indices.data(), values.data(), DType::kF64, 3, 0, 0};
  bound->apply(row);
  ASSERT_EQ(row.size, 2);
  EXPECT_EQ(indices[0], 0);
  EXPECT_EQ(values[0], 4);
  EXPECT_EQ(indices[1], 1);
  EXPECT_EQ(values[1], 1);
}

TEST(SelectGenes, NamesGenesThatAreMissing) {
  const matrix::GeneAxis axis{{"a", "b"}};
  try {
    SelectGenes({"a", "zz"}).bind(axis);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kNoSuchKey);
    EXPECT_NE(std::string(error.what()).find("zz"), std::string::npos);
  }
  EXPECT_THROW(SelectGenes({"a", "a"}), Error);
  EXPECT_THROW(SelectGenes({}), Error);
}

}  // namespace
}  // namespace cellfeed::transform
