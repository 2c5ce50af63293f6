// Transforms against the formulas of numpy, in double precision.
#include <gtest/gtest.h>

#include <cmath>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/transform/normalize.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::transform {
namespace {

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
  values[0] = 2.5;
  row.library_size = 2.5;
  EXPECT_THROW(NormalizeTotal().apply(row), Error);
  NormalizeTotal(100, true).apply(row);
  EXPECT_FLOAT_EQ(values[0], 100);
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

// Twice, so that what the first row leaves behind would show.
TEST(SelectGenes, SortsByTheNewColumns) {
  matrix::GeneAxis axis;
  std::vector<std::string> backwards;
  for (int g = 0; g < 300; ++g) axis.names.push_back(std::to_string(g));
  for (int g = 299; g >= 0; g -= 2) backwards.push_back(std::to_string(g));
  const auto bound = SelectGenes(backwards).bind(axis);
  for (const int step : {1, 7}) {
    std::vector<std::int32_t> indices;
    std::vector<std::int64_t> values;
    std::vector<std::int32_t> expected_indices;
    std::vector<std::int64_t> expected_values;
    for (int g = 0; g < 300; g += step) {
      indices.push_back(g);
      values.push_back(g + (std::int64_t{1} << 40));
    }
    for (int column = 0; column < 150; ++column)
      if (const int g = 299 - 2 * column; g % step == 0) {
        expected_indices.push_back(column);
        expected_values.push_back(g + (std::int64_t{1} << 40));
      }
    Row row{indices.data(),
            values.data(),
            DType::kI64,
            static_cast<std::int32_t>(indices.size()),
            0,
            0};
    bound->apply(row);
    indices.resize(static_cast<std::size_t>(row.size));
    values.resize(static_cast<std::size_t>(row.size));
    EXPECT_EQ(indices, expected_indices);
    EXPECT_EQ(values, expected_values);
  }
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
