// Rounds of weighted draws in a child that is forked while another thread draws one.
#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include "cellfeed/sampling/weighted_order.h"
#include "cellfeed/testing/forked_child.h"

namespace cellfeed::sampling {
namespace {

TEST(RoundCache, AForkedChildDrawsItsOwn) {
  if (testing::kSanitizer) GTEST_SKIP() << "a sanitizer's own locks are not fork-safe";
  RoundCache cache;
  const auto draw = [&](std::uint64_t round) {
    return cache.get({1, 0, round}, 2, [&] {
      return draw_without_replacement(RandomStream(1, 0, Purpose::kStatistics), round, 20'000, 50,
                                      [](std::int64_t) { return 1.0; });
    });
  };
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    for (std::uint64_t round = 0; !stop; ++round) draw(round);
  });
  const auto expected = *draw(7);
  for (int i = 0; i < 20; ++i)
    EXPECT_EQ(testing::run_in_child([&] { return *draw(7) == expected; }), 0);
  stop = true;
}

}  // namespace
}  // namespace cellfeed::sampling
