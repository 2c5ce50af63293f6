#include "cellfeed/exec/bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>
#include <vector>

namespace cellfeed::exec {
namespace {

using namespace std::chrono_literals;

TEST(BoundedQueue, KeepsOrder) {
  BoundedQueue<int> queue(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(queue.push(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(queue.pop(), i);
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST(BoundedQueue, RefusesNoCapacity) { EXPECT_THROW(BoundedQueue<int>(0), Error); }

TEST(BoundedQueue, HoldsMoveOnlyItems) {
  BoundedQueue<std::unique_ptr<int>> queue(1);
  EXPECT_TRUE(queue.push(std::make_unique<int>(4)));
  EXPECT_EQ(**queue.pop(), 4);
}

TEST(BoundedQueue, NeverHoldsMoreThanItsCapacity) {
  BoundedQueue<int> queue(2);
  std::atomic<int> pushed{0};
  std::jthread producer([&] {
    for (int i = 0; i < 20; ++i) {
      queue.push(i);
      ++pushed;
    }
  });
  for (int i = 0; i < 20; ++i) {
    EXPECT_LE(queue.size(), 2u);
    EXPECT_EQ(queue.pop(), i);
    EXPECT_LE(pushed, i + 4);
  }
}

TEST(BoundedQueue, CloseLetsConsumersDrainAndRefusesProducers) {
  BoundedQueue<int> queue(4);
  queue.push(1);
  queue.push(2);
  queue.close();
  EXPECT_FALSE(queue.push(3));
  EXPECT_EQ(queue.pop(), 1);
  EXPECT_EQ(queue.pop(), 2);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, CloseWakesWaitersOnBothSides) {
  BoundedQueue<int> full(1);
  full.push(1);
  BoundedQueue<int> empty(1);
  std::atomic<int> woken{0};
  {
    std::jthread producer([&] { woken += full.push(2) ? 0 : 1; });
    std::jthread consumer([&] { woken += empty.pop() ? 0 : 1; });
    std::this_thread::sleep_for(5ms);
    full.close();
    empty.close();
  }
  EXPECT_EQ(woken, 2);
}

TEST(BoundedQueue, StopTokenWakesWaitersOnBothSides) {
  BoundedQueue<int> full(1);
  full.push(1);
  BoundedQueue<int> empty(1);
  std::atomic<int> woken{0};
  std::stop_source stop;
  {
    std::jthread producer([&] { woken += full.push(2, stop.get_token()) ? 0 : 1; });
    std::jthread consumer([&] { woken += empty.pop(stop.get_token()) ? 0 : 1; });
    std::this_thread::sleep_for(5ms);
    stop.request_stop();
  }
  EXPECT_EQ(woken, 2);
  EXPECT_EQ(full.size(), 1u);
}

TEST(BoundedQueue, CancelFreesWhatIsQueued) {
  const auto item = std::make_shared<int>(1);
  BoundedQueue<std::shared_ptr<int>> queue(2);
  queue.push(item);
  queue.cancel();
  EXPECT_EQ(item.use_count(), 1);
  EXPECT_EQ(queue.pop(), std::nullopt);
}

TEST(BoundedQueue, ManyProducersAndConsumersLoseNothing) {
  BoundedQueue<int> queue(5);
  constexpr int kEach = 2000;
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> count{0};
  {
    std::vector<std::jthread> consumers;
    for (int c = 0; c < 3; ++c) {
      consumers.emplace_back([&] {
        while (const auto item = queue.pop()) {
          sum += *item;
          ++count;
        }
      });
    }
    {
      std::vector<std::jthread> producers;
      for (int p = 0; p < 3; ++p) {
        producers.emplace_back([&, p] {
          for (int i = 0; i < kEach; ++i) queue.push(p * kEach + i);
        });
      }
    }
    queue.close();
  }
  EXPECT_EQ(count, 3 * kEach);
  EXPECT_EQ(sum, std::int64_t{3 * kEach} * (3 * kEach - 1) / 2);
}

}  // namespace
}  // namespace cellfeed::exec
