#include "cellfeed/format/open_side_by_side.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <latch>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"

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

constexpr std::int64_t kSteps = 12;

TEST(StepSideBySide, StepsOfLocalFilesComeOneAfterAnother) {
  std::vector<std::int64_t> seen;
  step_side_by_side(kSteps, true, [&](std::int64_t i) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    seen.push_back(i);
  });
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(StepSideBySide, StepsBehindOneThatWaitsWaitTogether) {
  constexpr std::int64_t kFirstToWait = 3;
  std::latch rest(kSteps - kFirstToWait - 1);
  std::mutex mutex;
  std::vector<std::int64_t> seen;
  std::atomic<std::int64_t> n_late = 0;
  step_side_by_side(kSteps, false, [&](std::int64_t i) {
    {
      const std::scoped_lock lock(mutex);
      seen.push_back(i);
    }
    if (i == kFirstToWait) std::this_thread::sleep_for(std::chrono::milliseconds(5));
    if (i <= kFirstToWait) return;
    // Each waits for all others: one after another none would end.
    rest.count_down();
    for (int k = 0; k < 20'000 && !rest.try_wait(); ++k)
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    if (!rest.try_wait()) ++n_late;
  });
  EXPECT_EQ(n_late, 0);
  std::ranges::sort(seen);
  EXPECT_EQ(seen, (std::vector<std::int64_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}));
}

TEST(StepSideBySide, TheFirstErrorIsThrownWhoeverWaits) {
  for (const std::int64_t first : {0, 1, 5}) {
    std::atomic<std::int64_t> n_begun = 0;
    try {
      step_side_by_side(kSteps, false, [&](std::int64_t i) {
        ++n_begun;
        if (i == 0) std::this_thread::sleep_for(std::chrono::milliseconds(5));
        if (i >= first) throw_error(ErrorKind::kIo, std::to_string(i), "is not there");
      });
      ADD_FAILURE() << "nothing was thrown";
    } catch (const Error& error) {
      EXPECT_EQ(error.path(), std::to_string(first));
    }
    EXPECT_GT(n_begun, 0);
  }
}

}  // namespace
}  // namespace cellfeed::format
