#include "cellfeed/convert/ordered_pipeline.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace cellfeed::convert {
namespace {

TEST(OrderedPipeline, ConsumesInOrderWithinItsBudget) {
  exec::ThreadPool pool(4);
  std::atomic<std::int64_t> held{0}, most{0};
  std::vector<std::int64_t> seen;
  run_in_order<std::int64_t>(
      pool, 500, {10, 64}, [](std::int64_t) { return 3; },
      [&](std::int64_t i) {
        const std::int64_t now = ++held;
        for (std::int64_t m = most; now > m && !most.compare_exchange_weak(m, now);) {
        }
        if (i % 7 == 0) std::this_thread::yield();
        return i * i;
      },
      [&](std::int64_t i, std::int64_t&& result) {
        EXPECT_EQ(result, i * i);
        seen.push_back(i);
        --held;
      });
  EXPECT_EQ(seen.size(), 500);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
  EXPECT_LE(most, 3) << "a budget of 10 bytes holds three tasks of 3";
}

TEST(OrderedPipeline, ATaskAboveTheBudgetRunsAlone) {
  exec::ThreadPool pool(2);
  int done = 0;
  run_in_order<int>(
      pool, 5, {10, 64}, [](std::int64_t) { return 100; }, [](std::int64_t) { return 1; },
      [&](std::int64_t, int&& one) { done += one; });
  EXPECT_EQ(done, 5);
}

TEST(OrderedPipeline, TheFirstErrorInOrderIsThrownAfterAllTasksEnded) {
  exec::ThreadPool pool(4);
  std::atomic<int> running{0};
  try {
    run_in_order<int>(
        pool, 100, {1 << 20, 16}, [](std::int64_t) { return 1; },
        [&](std::int64_t i) {
          ++running;
          std::this_thread::yield();
          --running;
          if (i >= 20) throw_invalid("task {}", i);
          return 1;
        },
        [](std::int64_t, int&&) {});
    FAIL() << "the error was lost";
  } catch (const Error& error) {
    EXPECT_STREQ(error.what(), "task 20");
  }
  EXPECT_EQ(running, 0);
}

TEST(OrderedPipeline, StopsWhenAsked) {
  exec::ThreadPool pool(2);
  std::stop_source stop;
  std::int64_t consumed = 0;
  try {
    run_in_order<int>(
        pool, 1'000'000, {1 << 20, 16}, [](std::int64_t) { return 1; },
        [](std::int64_t) { return 1; },
        [&](std::int64_t i, int&&) {
          consumed = i;
          if (i == 10) stop.request_stop();
        },
        stop.get_token());
    FAIL() << "went on";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  }
  EXPECT_EQ(consumed, 10);
}

}  // namespace
}  // namespace cellfeed::convert
