#include "cellfeed/exec/stop_scope.h"

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <latch>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::exec {
namespace {

using namespace std::chrono_literals;

constexpr auto kForever = 24h;

// Empty where nothing was thrown.
template <typename Work>
std::optional<ErrorKind> kind_thrown_by(Work work) {
  try {
    work();
  } catch (const Error& error) {
    return error.kind();
  }
  return std::nullopt;
}

TEST(StopScope, IsThatOfItsThreadAndOfItsLifetime) {
  EXPECT_FALSE(current_stop().stop_possible());
  std::stop_source outer, inner;
  {
    const StopScope of_outer(outer.get_token());
    EXPECT_EQ(current_stop(), outer.get_token());
    {
      const StopScope of_inner(inner.get_token());
      EXPECT_EQ(current_stop(), inner.get_token());
      const StopScope in_any_case({});
      EXPECT_FALSE(current_stop().stop_possible());
    }
    EXPECT_EQ(current_stop(), outer.get_token());
    std::jthread([] { EXPECT_FALSE(current_stop().stop_possible()); }).join();
  }
  EXPECT_FALSE(current_stop().stop_possible());
}

TEST(StopScope, EndsSleepsAndWaitsThatGoOn) {
  std::stop_source stop;
  std::latch begun(2);
  const auto in_scope = [&](auto wait) {
    return std::async(std::launch::async, [&begun, token = stop.get_token(), wait] {
      const StopScope scope(token);
      begun.count_down();
      return kind_thrown_by(wait);
    });
  };
  auto sleeping = in_scope([] { sleep_unless_stopped(kForever); });
  auto waiting = in_scope([] {
    std::mutex mutex;
    std::condition_variable_any changed;
    std::unique_lock lock(mutex);
    wait_unless_stopped(changed, lock, [] { return false; });
  });
  begun.wait();
  EXPECT_EQ(sleeping.wait_for(20ms), std::future_status::timeout);
  stop.request_stop();
  EXPECT_EQ(sleeping.get(), ErrorKind::kCancelled);
  EXPECT_EQ(waiting.get(), ErrorKind::kCancelled);
}

TEST(StopScope, LeavesWhatIsOverOrNotStoppedAlone) {
  std::stop_source stop;
  const StopScope scope(stop.get_token());
  std::mutex mutex;
  std::condition_variable_any changed;
  std::unique_lock lock(mutex);
  sleep_unless_stopped(1ms);
  throw_if_stopped();
  stop.request_stop();
  // What was waited for is there: nothing is lost.
  EXPECT_EQ(kind_thrown_by([&] { wait_unless_stopped(changed, lock, [] { return true; }); }),
            std::nullopt);
  EXPECT_EQ(kind_thrown_by([&] { wait_unless_stopped(changed, lock, [] { return false; }); }),
            ErrorKind::kCancelled);
  EXPECT_EQ(kind_thrown_by([] { sleep_unless_stopped(kForever); }), ErrorKind::kCancelled);
  const StopScope in_any_case({});
  EXPECT_EQ(kind_thrown_by([] { sleep_unless_stopped(1ms); }), std::nullopt);
}

TEST(StopScope, GoesWithTheTasksThatItsThreadGivesToAPool) {
  ThreadPool pool(3);
  std::stop_source stop;
  std::promise<std::stop_token> seen, seen_outside;
  {
    const StopScope scope(stop.get_token());
    pool.submit([&] { seen.set_value(current_stop()); });
    EXPECT_EQ(seen.get_future().get(), stop.get_token());
    // Each of the pool's threads takes one.
    std::latch all_there(3);
    std::vector<std::stop_token> tokens(3);
    pool.parallel_for(3, [&](std::int64_t i) {
      all_there.arrive_and_wait();
      tokens[static_cast<std::size_t>(i)] = current_stop();
    });
    for (const std::stop_token& token : tokens) EXPECT_EQ(token, stop.get_token());
  }
  std::latch all_there(3);
  std::atomic<int> n_possible{0};
  pool.parallel_for(3, [&](std::int64_t) {
    all_there.arrive_and_wait();
    n_possible += current_stop().stop_possible() ? 1 : 0;
  });
  EXPECT_EQ(n_possible, 0);
}

}  // namespace
}  // namespace cellfeed::exec
