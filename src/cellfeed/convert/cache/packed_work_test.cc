#include "cellfeed/convert/cache/packed_work.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <latch>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/testing/forked_child.h"

namespace cellfeed::convert {
namespace {

// A thread that waits for a server: whether the process gets to its end, in a child that has one.
bool ends_with(const std::function<void(PackedWork&)>& wait) {
  return testing::run_in_child([&] {
           std::stop_source stop;
           std::latch begun(1);
           const std::jthread thread([&] {
             PackedWork work(stop);
             begun.count_down();
             try {
               wait(work);
             } catch (const Error& error) {
               if (error.kind() != ErrorKind::kCancelled) ::_exit(3);
             }
           });
           begun.wait();
           end_packed_work();
           return stop.stop_requested();
         }) == 0;
}

TEST(PackedWork, GivesUpAServerThatDoesNotAnswerAtTheEndOfTheProcess) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  EXPECT_TRUE(ends_with([](PackedWork& work) {
    const PackedWork::Question question(work);
    exec::sleep_unless_stopped(std::chrono::hours(24));
  }));
}

// However long what comes before it takes.
TEST(PackedWork, WaitsForOneThatDoes) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  EXPECT_TRUE(ends_with([](PackedWork& work) {
    std::this_thread::sleep_for(std::chrono::seconds(6));
    const PackedWork::Question question(work);
    exec::sleep_unless_stopped(std::chrono::milliseconds(300));
    if (exec::current_stop().stop_requested()) std::this_thread::sleep_for(std::chrono::hours(24));
  }));
}

}  // namespace
}  // namespace cellfeed::convert
