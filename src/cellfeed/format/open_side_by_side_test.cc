#include "cellfeed/format/open_side_by_side.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace cellfeed::format {
namespace {

TEST(OpenSideBySide, OpensEachOnce) {
  for (const bool is_local : {true, false}) {
    std::vector<std::atomic<int>> opened(100);
    open_side_by_side(100, is_local, [&](std::int64_t i) { ++opened[i]; });
    for (const auto& n : opened) EXPECT_EQ(n, 1);
  }
  open_side_by_side(0, true, [](std::int64_t) { FAIL(); });
}

TEST(WaitSideBySide, IsOnThisThreadAndInOrderForLocalFiles) {
  std::vector<std::int64_t> waited;
  const auto thread = std::this_thread::get_id();
  wait_side_by_side(5, true, [&](std::int64_t i) {
    EXPECT_EQ(std::this_thread::get_id(), thread);
    waited.push_back(i);
  });
  EXPECT_EQ(waited, (std::vector<std::int64_t>{0, 1, 2, 3, 4}));
  std::latch both{2};
  wait_side_by_side(2, false, [&](std::int64_t) { both.arrive_and_wait(); });
}

// The fourth waits until the fifth has failed.
TEST(OpenSideBySide, TheErrorIsThatOfTheLowest) {
  std::latch has_failed{1};
  try {
    open_side_by_side(8, false, [&](std::int64_t i) {
      if (i < 3 || i > 4) return;
      if (i == 3) {
        has_failed.wait();
        std::this_thread::sleep_for(std::chrono::milliseconds(20));
      } else {
        has_failed.count_down();
      }
      throw std::runtime_error(std::to_string(i));
    });
    FAIL();
  } catch (const std::runtime_error& error) {
    EXPECT_STREQ(error.what(), "3");
  }
}

}  // namespace
}  // namespace cellfeed::format
