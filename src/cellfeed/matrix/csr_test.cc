#include "cellfeed/matrix/csr.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

#include "cellfeed/matrix/buffer.h"

namespace cellfeed::matrix {
namespace {

using ::testing::ElementsAre;

TEST(CloseGaps, RowsFollowOneAnother) {
  // Rows of 3, 2, 0 and 2 places, of which 1, 2, 0 and 1 are taken.
  std::vector<std::int64_t> indptr{0, 3, 5, 5, 7};
  const std::vector<std::int32_t> counts{1, 2, 0, 1};
  std::vector<std::int32_t> indices{4, -1, -1, 5, 6, 7, -1};
  std::vector<double> values{0.4, -1, -1, 0.5, 0.6, 0.7, -1};
  close_gaps(indptr, counts, indices.data(), values.data(), sizeof(double));
  EXPECT_THAT(indptr, ElementsAre(0, 1, 3, 3, 4));
  indices.resize(4);
  values.resize(4);
  EXPECT_THAT(indices, ElementsAre(4, 5, 6, 7));
  EXPECT_THAT(values, ElementsAre(0.4, 0.5, 0.6, 0.7));
}

TEST(CloseGaps, NothingMovesWhereThereIsNone) {
  std::vector<std::int64_t> indptr{0, 2, 3};
  const std::vector<std::int32_t> counts{2, 1};
  std::vector<std::int32_t> indices{1, 2, 3};
  std::vector<float> values{1, 2, 3};
  close_gaps(indptr, counts, indices.data(), values.data(), sizeof(float));
  EXPECT_THAT(indptr, ElementsAre(0, 2, 3));
  EXPECT_THAT(indices, ElementsAre(1, 2, 3));
  EXPECT_THAT(values, ElementsAre(1, 2, 3));
}

TEST(CloseGaps, NoRows) {
  std::vector<std::int64_t> indptr{0};
  close_gaps(indptr, {}, nullptr, nullptr, 4);
  EXPECT_THAT(indptr, ElementsAre(0));
}

TEST(Buffer, UsesAllOfABlockBeforeItAsksForAnother) {
  constexpr std::size_t kLarge = (std::size_t{4} << 20) + 1000;
  Buffer<std::int32_t> buffer(kLarge / sizeof(std::int32_t));
  EXPECT_EQ(buffer.capacity_bytes() + kPaddingBytes, block_bytes(kLarge));
  const std::int32_t* memory = buffer.data();
  const std::size_t most = buffer.capacity_bytes() / sizeof(std::int32_t);
  buffer.reset(most);
  EXPECT_EQ(buffer.data(), memory);
  buffer[most - 1] = 7;
  buffer.reset(most + 1);
  EXPECT_GT(buffer.capacity_bytes(), block_bytes(kLarge));
  Buffer<std::int32_t> small(10);
  EXPECT_EQ(small.capacity_bytes(), 10 * sizeof(std::int32_t));
}

}  // namespace
}  // namespace cellfeed::matrix
