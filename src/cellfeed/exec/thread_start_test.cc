#include "cellfeed/exec/thread_start.h"

#include <gtest/gtest.h>
#include <pthread.h>

namespace cellfeed::exec {
namespace {

cpu_set_t processors_of_this_thread() {
  cpu_set_t set;
  EXPECT_EQ(::pthread_getaffinity_np(::pthread_self(), sizeof set, &set), 0);
  return set;
}

TEST(ThreadProcessors, AreTakenOverByAnotherThread) {
  const cpu_set_t all = processors_of_this_thread();
  int first = 0;
  while (!CPU_ISSET(first, &all)) ++first;
  cpu_set_t one;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  start_thread([&](const std::stop_token&) {
    ASSERT_EQ(::pthread_setaffinity_np(::pthread_self(), sizeof one, &one), 0);
    const ThreadProcessors own;
    start_thread([&](const std::stop_token&) {
      ASSERT_EQ(::pthread_setaffinity_np(::pthread_self(), sizeof all, &all), 0);
      own.adopt();
      const cpu_set_t adopted = processors_of_this_thread();
      EXPECT_TRUE(CPU_EQUAL(&adopted, &one));
    }).join();
  }).join();
}

}  // namespace
}  // namespace cellfeed::exec
