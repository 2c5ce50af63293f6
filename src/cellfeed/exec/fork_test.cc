// Pools in forked children. The parent's threads do not exist there, and its locks may be held
// forever.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <memory>
#include <thread>

#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/exec/thread_start.h"
#include "cellfeed/testing/forked_child.h"

namespace cellfeed::exec {
namespace {

using testing::run_in_child;

bool sums_correctly(ThreadPool& pool) {
  std::atomic<std::int64_t> sum{0};
  pool.parallel_for(1000, [&](std::int64_t i) { sum += i; });
  std::latch done(4);
  for (int i = 0; i < 4; ++i) pool.submit([&] { done.count_down(); });
  done.wait();
  return sum == 499500;
}

// ThreadSanitizer ends a child that starts threads after a fork of a threaded process.
class ForkedPool : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::kThreadSanitizer)
      GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  }
};

TEST(Fork, GenerationGrowsInTheChildOnly) {
  const std::uint64_t here = fork_generation();
  EXPECT_EQ(run_in_child([&] { return fork_generation() == here + 1; }), 0);
  EXPECT_EQ(fork_generation(), here);
}

TEST_F(ForkedPool, SharedOneIsFreshInTheChild) {
  const auto pool = shared_pool(3);
  ASSERT_TRUE(sums_correctly(*pool));
  EXPECT_EQ(run_in_child([&] {
              const auto own = shared_pool(3);
              return own != pool && sums_correctly(*own);
            }),
            0);
  EXPECT_TRUE(sums_correctly(*pool));
}

TEST_F(ForkedPool, InheritedOneStartsAgainAndMayBeDestroyed) {
  auto pool = std::make_unique<ThreadPool>(2);
  ASSERT_TRUE(sums_correctly(*pool));
  EXPECT_EQ(run_in_child([&] {
              const bool correct = sums_correctly(*pool);
              pool.reset();
              return correct;
            }),
            0);
  EXPECT_EQ(run_in_child([&] {
              pool.reset();  // used by nobody here: must not join the parent's threads
              return true;
            }),
            0);
  EXPECT_TRUE(sums_correctly(*pool));
}

TEST_F(ForkedPool, WorksWhileTheParentIsInTheMiddleOfItsOwnWork) {
  if (testing::kSanitizer)
    GTEST_SKIP() << "AddressSanitizer's allocator may be locked by another thread at the fork";
  const auto pool = shared_pool(2);
  std::atomic<bool> stop{false};
  std::jthread busy([&] {
    while (!stop) {
      pool->parallel_for(50, [](std::int64_t) {});
      shared_pool(2);
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(
        run_in_child([&] { return sums_correctly(*shared_pool(2)) && sums_correctly(*pool); }), 0);
  }
  stop = true;
}

// Moved when its thread is being started.
struct SlowToMove {
  std::atomic<bool>* is_moving;
  explicit SlowToMove(std::atomic<bool>* moving) : is_moving(moving) {}
  SlowToMove(SlowToMove&& other) noexcept : is_moving(other.is_moving) {
    *is_moving = true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    *is_moving = false;
  }
  void operator()(const std::stop_token&) const {}
};

TEST(Fork, NeverHappensWhileAThreadIsBeingStarted) {
  if (testing::kSanitizer) GTEST_SKIP() << "a sanitizer's own locks are not fork-safe";
  std::atomic<bool> stop{false};
  std::atomic<bool> is_starting{false};
  std::jthread starting([&] {
    while (!stop) start_thread(SlowToMove(&is_starting));
  });
  while (!is_starting) std::this_thread::yield();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(run_in_child([&] { return !is_starting; }), 0);
  stop = true;
}

TEST(PerProcess, MakesOneValueForAllThreads) {
  PerProcess<std::unique_ptr<int>> value;
  EXPECT_EQ(value.peek(), nullptr);
  std::atomic<int*> first{nullptr};
  std::atomic<int> n_different{0};
  ThreadPool pool(4);
  pool.parallel_for(64, [&](std::int64_t) {
    int* mine = value.get([] { return std::make_unique<int>(7); }).get();
    int* expected = nullptr;
    if (!first.compare_exchange_strong(expected, mine) && expected != mine) ++n_different;
  });
  EXPECT_EQ(n_different, 0);
  EXPECT_EQ(**value.peek(), 7);
}

}  // namespace
}  // namespace cellfeed::exec
