#include "cellfeed/exec/byte_budget.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {
namespace {

using namespace std::chrono_literals;

TEST(ByteBudget, CountsWhatIsHeldAndItsPeak) {
  ByteBudget budget(100);
  {
    auto first = budget.take(60);
    const auto second = budget.take(40);
    EXPECT_EQ(budget.used(), 100);
    first.shrink(10);
    EXPECT_EQ(budget.used(), 50);
    EXPECT_EQ(first.bytes(), 10);
  }
  EXPECT_EQ(budget.used(), 0);
  EXPECT_EQ(budget.peak(), 100);
}

TEST(ByteBudget, TryAcquireTakesOnlyWhatFits) {
  ByteBudget budget(10);
  const auto held = budget.try_acquire(8);
  ASSERT_TRUE(held);
  EXPECT_FALSE(budget.try_acquire(3));
  EXPECT_TRUE(budget.try_acquire(2));
}

const auto kNever = [] { return false; };

TEST(ByteBudget, RequestAboveTheLimitWaitsUntilItIsAlone) {
  ByteBudget budget(10);
  auto small = budget.take(1);
  EXPECT_FALSE(budget.try_acquire(50));
  std::atomic<bool> has_large{false};
  std::jthread waiter([&] {
    const auto large = budget.acquire(50, {}, kNever);
    has_large = true;
    EXPECT_EQ(budget.used(), 50);
    EXPECT_FALSE(budget.try_acquire(1));
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(has_large);
  small.release();
  waiter.join();
  EXPECT_TRUE(has_large);
  EXPECT_EQ(budget.used(), 0);
}

TEST(ByteBudget, WhoMustGoOnTakesMoreThanThereIs) {
  ByteBudget budget(10);
  const auto held = budget.take(8);
  std::atomic<bool> must_go_on{false};
  std::atomic<bool> has_more{false};
  std::jthread waiter([&] {
    const auto more = budget.acquire(5, {}, [&] { return must_go_on.load(); });
    has_more = true;
    EXPECT_EQ(budget.used(), 13);
  });
  std::this_thread::sleep_for(5ms);
  EXPECT_FALSE(has_more);
  must_go_on = true;
  budget.recheck();
  waiter.join();
  EXPECT_TRUE(has_more);
  EXPECT_EQ(budget.peak(), 13);
}

TEST(ByteBudget, NobodyTakesInPassingWhatOthersWaitFor) {
  ByteBudget budget(10);
  auto held = budget.take(6);
  std::stop_source stop;
  std::jthread waiter([&] { (void)budget.acquire(8, stop.get_token(), kNever); });
  while (budget.try_acquire(1)) std::this_thread::yield();  // until it waits
  EXPECT_FALSE(budget.try_acquire(1));
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(budget.try_acquire(1));
}

TEST(ByteBudget, StopEndsTheWait) {
  ByteBudget budget(10);
  const auto held = budget.take(5);
  std::stop_source stop;
  std::atomic<bool> is_empty{false};
  std::jthread waiter([&] { is_empty = !budget.acquire(9, stop.get_token(), kNever); });
  std::this_thread::sleep_for(5ms);
  stop.request_stop();
  waiter.join();
  EXPECT_TRUE(is_empty);
  EXPECT_EQ(budget.used(), 5);
}

TEST(ByteBudget, RefusesNegativeSizes) {
  EXPECT_THROW(ByteBudget(0), Error);
  ByteBudget budget(1);
  EXPECT_THROW((void)budget.acquire(-1, {}, kNever), Error);
  EXPECT_THROW((void)budget.try_acquire(-1), Error);
  auto lease = budget.take(1);
  EXPECT_THROW(lease.shrink(2), Error);
}

TEST(ByteBudget, WhatALeaseIsSetToIsUsed) {
  ByteBudget budget(10);
  auto lease = budget.take(4);
  lease.set(12);
  EXPECT_EQ(budget.used(), 12);
  lease.set(3);
  EXPECT_EQ(budget.used(), 3);
  EXPECT_EQ(lease.bytes(), 3);
}

TEST(ByteBudget, LeaseMayOutliveTheBudget) {
  ByteBudget::Lease lease;
  {
    ByteBudget budget(5);
    lease = budget.take(5);
  }
  EXPECT_EQ(lease.bytes(), 5);
  lease.release();
  EXPECT_EQ(lease.bytes(), 0);
}

TEST(ByteBudget, ManyThreadsNeverExceedTheLimit) {
  ByteBudget budget(100);
  std::atomic<std::int64_t> held{0};
  std::atomic<int> n_above{0};
  {
    std::vector<std::jthread> threads;
    for (int t = 0; t < 4; ++t) {
      threads.emplace_back([&, t] {
        for (int i = 0; i < 500; ++i) {
          const auto lease = budget.acquire((i * 7 + t * 13) % 60, {}, kNever);
          n_above += (held += lease->bytes()) > 100;
          if (i % 8 == 0) std::this_thread::yield();
          held -= lease->bytes();
        }
      });
    }
  }
  EXPECT_EQ(n_above, 0);
  EXPECT_LE(budget.peak(), 100);
  EXPECT_GE(budget.peak(), 59);  // the largest request
  EXPECT_EQ(budget.used(), 0);
}

}  // namespace
}  // namespace cellfeed::exec
