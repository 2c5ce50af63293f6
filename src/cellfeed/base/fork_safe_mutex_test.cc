#include "cellfeed/base/fork_safe_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "cellfeed/testing/forked_child.h"

namespace cellfeed {
namespace {

using testing::run_in_child;

constexpr int kForks = testing::kSanitizer ? 0 : 40;  // a sanitizer's own locks are not fork-safe

TEST(ForkSafeMutex, OneThreadAtATimeIsInside) {
  ForkSafeMutex mutex;
  std::int64_t count = 0;
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t)
      threads.emplace_back([&] {
        for (int i = 0; i < 10'000; ++i) {
          const std::lock_guard lock(mutex);
          ++count;
        }
      });
  }
  EXPECT_EQ(count, 40'000);
}

TEST(ForkSafeMutex, AForkedChildFindsItFreeAndWhatItGuardsWhole) {
  ForkSafeMutex outer;
  ForkSafeMutex inner;
  std::int64_t a = 0;
  std::int64_t b = 0;
  std::atomic<bool> stop{false};
  std::vector<std::jthread> busy;
  for (int t = 0; t < 2; ++t)
    busy.emplace_back([&] {
      while (!stop) {
        const std::lock_guard lock(outer);
        ++a;
        const std::lock_guard nested(inner);
        ++b;
      }
    });
  for (int i = 0; i < kForks; ++i)
    EXPECT_EQ(run_in_child([&] {
                const std::lock_guard lock(outer);
                const std::lock_guard nested(inner);
                return a == b;
              }),
              0);
  stop = true;
}

TEST(ForkSafeMutex, SeveralThreadsMayForkAtOnce) {
  ForkSafeMutex mutex;
  std::vector<std::jthread> forking;
  for (int t = 0; t < 3; ++t)
    forking.emplace_back([&] {
      for (int i = 0; i < kForks / 4; ++i)
        EXPECT_EQ(run_in_child([&] {
                    const std::lock_guard lock(mutex);
                    return true;
                  }),
                  0);
    });
}

TEST(ForkSafeMutex, WhoForksInsideIsStillInside) {
  if (kForks == 0) GTEST_SKIP() << "a sanitizer's own locks are not fork-safe";
  ForkSafeMutex mutex;
  const std::lock_guard lock(mutex);
  EXPECT_EQ(run_in_child([&] {
              mutex.unlock();
              mutex.lock();
              return true;
            }),
            0);
}

}  // namespace
}  // namespace cellfeed
