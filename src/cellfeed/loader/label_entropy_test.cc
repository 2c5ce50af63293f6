#include "cellfeed/loader/label_entropy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <map>
#include <random>
#include <vector>

namespace cellfeed::loader {
namespace {

double by_formula(const std::vector<std::int64_t>& codes) {
  std::map<std::int64_t, double> counts;
  double n = 0;
  for (const std::int64_t code : codes)
    if (code >= 0) {
      ++counts[code];
      ++n;
    }
  double bits = 0;
  for (const auto& [code, count] : counts) bits += count / n * std::log2(n / count);
  return bits;
}

TEST(LabelEntropy, IsShannons) {
  EXPECT_EQ(label_entropy_bits({}), 0);
  const std::vector<std::int64_t> missing{-1, -1};
  EXPECT_EQ(label_entropy_bits(missing), 0);
  const std::vector<std::int64_t> halves{7, -1, 9, 7, 9};
  EXPECT_DOUBLE_EQ(label_entropy_bits(halves), 1);
  std::mt19937_64 random(5);
  for (const std::int64_t n_categories : {1, 2, 40, 300'000}) {
    std::vector<std::int64_t> codes(1024);
    for (auto& code : codes) code = static_cast<std::int64_t>(random() % (n_categories + 1)) - 1;
    EXPECT_NEAR(label_entropy_bits(codes), by_formula(codes), 1e-9) << n_categories;
  }
}

// A table with a place for each category would be larger than any memory.
TEST(LabelEntropy, TakesTimeAndMemoryForTheRowsAlone) {
  const std::int64_t large = std::int64_t{1} << 62;
  const std::vector<std::int64_t> codes{large, large + 1, large, large + 1};
  EXPECT_DOUBLE_EQ(label_entropy_bits(codes), 1);
}

}  // namespace
}  // namespace cellfeed::loader
