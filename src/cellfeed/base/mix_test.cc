#include "cellfeed/base/mix.h"

#include <gtest/gtest.h>

#include <set>

namespace cellfeed {
namespace {

TEST(Mix, NoTwoPairsOfSmallNumbersAreAlike) {
  constexpr std::uint64_t kSmall = 200;
  std::set<std::uint64_t> found;
  for (std::uint64_t first = 0; first < kSmall; ++first)
    for (std::uint64_t second = 0; second < kSmall; ++second)
      found.insert(mix(mix(0, first), second));
  EXPECT_EQ(found.size(), kSmall * kSmall);
}

TEST(Mix, ZerosCount) {
  std::set<std::uint64_t> found;
  std::uint64_t hash = 0;
  for (int n = 0; n < 100; ++n) found.insert(hash = mix(hash, std::uint64_t{0}));
  EXPECT_EQ(found.size(), 100u);
}

TEST(Mix, TextsAreNotJoined) {
  EXPECT_NE(mix(mix(0, "ab"), "c"), mix(mix(0, "a"), "bc"));
  EXPECT_NE(mix(mix(0, ""), "a"), mix(mix(0, "a"), ""));
}

}  // namespace
}  // namespace cellfeed
