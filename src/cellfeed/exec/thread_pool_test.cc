#include "cellfeed/exec/thread_pool.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <future>
#include <latch>
#include <mutex>
#include <set>
#include <stdexcept>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {
namespace {

using ::testing::HasSubstr;

TEST(ThreadPool, RunsEverySubmittedTask) {
  std::latch done(100);
  std::atomic<int> sum{0};
  ThreadPool pool(3);
  for (int i = 0; i < 100; ++i) {
    pool.submit([&, i] {
      sum += i;
      done.count_down();
    });
  }
  done.wait();
  EXPECT_EQ(sum, 4950);
}

TEST(ThreadPool, OneThreadKeepsTheOrderOfSubmission) {
  std::vector<int> order;
  std::latch done(50);
  ThreadPool pool(1);
  for (int i = 0; i < 50; ++i) {
    pool.submit([&, i] {
      order.push_back(i);
      done.count_down();
    });
  }
  done.wait();
  for (int i = 0; i < 50; ++i) EXPECT_EQ(order[static_cast<std::size_t>(i)], i);
}

TEST(ThreadPool, RefusesSizesThatMakeNoSense) {
  EXPECT_THROW(ThreadPool(0), Error);
  EXPECT_THROW(ThreadPool(-1), Error);
  EXPECT_THROW(ThreadPool(1 << 20), Error);
}

TEST(ThreadPool, ParallelForCallsEachIndexOnce) {
  ThreadPool pool(4);
  for (const std::int64_t n : {0, 1, 2, 3, 5, 1000}) {
    std::vector<std::atomic<int>> calls(static_cast<std::size_t>(n));
    pool.parallel_for(n, [&](std::int64_t i) { ++calls[static_cast<std::size_t>(i)]; });
    for (const auto& count : calls) EXPECT_EQ(count, 1);
  }
}

TEST(ThreadPool, ParallelForUsesAtMostItsThreadsAndTheCaller) {
  ThreadPool pool(3);
  std::mutex mutex;
  std::condition_variable changed;
  std::set<std::thread::id> ids;
  std::size_t inside = 0, most = 0;
  bool have_met = true;
  const auto caller = std::this_thread::get_id();
  pool.parallel_for(60, [&](std::int64_t) {
    std::unique_lock lock(mutex);
    most = std::max(most, ++inside);
    ids.insert(std::this_thread::get_id());
    changed.notify_all();
    // Nobody does more than one before two are there, and the caller among them.
    const auto have_two = [&] { return ids.size() >= 2 && ids.contains(caller); };
    have_met = have_met && changed.wait_for(lock, std::chrono::seconds(60), have_two);
    --inside;
  });
  EXPECT_TRUE(have_met);
  EXPECT_LE(most, 3u);
  EXPECT_LE(ids.size(), 3u);
}

TEST(ThreadPool, NestedParallelForDoesNotDeadlock) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  pool.parallel_for(8, [&](std::int64_t) {
    pool.parallel_for(8,
                      [&](std::int64_t) { pool.parallel_for(4, [&](std::int64_t) { ++calls; }); });
  });
  EXPECT_EQ(calls, 8 * 8 * 4);
}

TEST(ThreadPool, ParallelForWorksWhileAllThreadsAreBusy) {
  ThreadPool pool(2);
  std::promise<void> release;
  const std::shared_future<void> released = release.get_future().share();
  for (int i = 0; i < 2; ++i) pool.submit([released] { released.wait(); });
  std::atomic<int> calls{0};
  pool.parallel_for(10, [&](std::int64_t) { ++calls; });
  EXPECT_EQ(calls, 10);
  release.set_value();
}

TEST(ThreadPool, ParallelForThrowsTheErrorAndBeginsNothingMore) {
  ThreadPool pool(2);
  std::atomic<int> calls{0};
  const auto run = [&] {
    pool.parallel_for(100000, [&](std::int64_t i) {
      ++calls;
      if (i == 10) throw_invalid("planted at {}", i);
      // Long enough in all that the throwing thread cannot be left waiting for a processor
      // throughout.
      if (i > 10) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    });
  };
  try {
    run();
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("planted at 10"));
  }
  EXPECT_LT(calls, 100000);
  pool.parallel_for(5, [&](std::int64_t) {});  // the pool is as good as before
}

TEST(ThreadPool, ErrorOfASubmittedTaskIsThrownOnceByTheNextCall) {
  std::promise<void> go;
  std::promise<void> ran;
  ThreadPool pool(1);
  pool.submit([&go] {
    go.get_future().wait();
    throw std::runtime_error("from the task");
  });
  pool.submit([&ran] { ran.set_value(); });
  go.set_value();
  ran.get_future().wait();
  EXPECT_THROW(pool.submit([] {}), std::runtime_error);
  EXPECT_NO_THROW(pool.submit([] {}));
}

TEST(ThreadPool, DestructorDropsWhatHasNotBegun) {
  std::atomic<int> ran{0};
  const auto captured = std::make_shared<int>(1);
  // Ten seconds in all: some may begin where the destroying thread waits for a processor.
  const auto task = [&ran, captured] {
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    ++ran;
  };
  {
    ThreadPool pool(1);
    std::promise<void> begun;
    pool.submit([&] {
      begun.set_value();
      task();
    });
    for (int i = 0; i < 100; ++i) pool.submit(task);
    begun.get_future().wait();
  }
  EXPECT_GE(ran, 1);
  EXPECT_LT(ran, 100);
  EXPECT_EQ(captured.use_count(), 2);  // here, and in the task that was handed in
}

TEST(ThreadPool, MayBeDestroyedByItsOwnTask) {
  auto pool = std::make_shared<ThreadPool>(2);
  std::weak_ptr<ThreadPool> alive = pool;
  std::promise<void> go;
  pool->submit([held = pool, wait = go.get_future().share()] { wait.wait(); });
  pool.reset();
  EXPECT_FALSE(alive.expired());
  go.set_value();
  while (!alive.expired()) std::this_thread::yield();
}

TEST(SharedPool, IsOnePerThreadCountWhileHeld) {
  const auto two = shared_pool(2);
  EXPECT_EQ(two, shared_pool(2));
  EXPECT_NE(two, shared_pool(3));
  EXPECT_EQ(two->n_threads(), 2);
}

TEST(SharedPool, RefusesSizesThatMakeNoSense) { EXPECT_THROW(shared_pool(0), Error); }

TEST(DefaultThreadCount, IsWithinTheMachine) {
  EXPECT_GE(default_thread_count(), 1);
  EXPECT_LE(default_thread_count(), static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace
}  // namespace cellfeed::exec
