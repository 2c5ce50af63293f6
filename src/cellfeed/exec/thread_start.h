// start_thread: a thread for work of ours. Signals are left to the threads of the application.
// Thread-safe. Fork-safe: no fork happens while a thread is being started.
#pragma once

#include <sched.h>

#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::exec {

// Blocks signals but those that a thread causes itself, and names the thread.
void prepare_own_thread();
// The processors that a thread may run on, for one that works in its place.
class ThreadProcessors {
 public:
  ThreadProcessors();  // of the calling thread
  void adopt() const;  // by the calling thread, where they are known

 private:
  cpu_set_t set_;
  bool is_known_;
};
// kIo, with the limits to raise.
[[noreturn]] void throw_no_thread(const std::system_error& error);

// body(stop) must not throw. REQUIRES: no lock is held that the holder of a ForkSafeMutex may want,
// or a ForkHold as well, taken before it. Throws kIo where the system gives no thread,
// std::bad_alloc.
template <typename Body>
std::jthread start_thread(Body body) {
  // glibc (2.36: get_cached_stack of allocatestack.c) frees the thread-local memory of a stack that
  // it uses again, and notes only then that it has. A child that is forked in between finds the
  // stack among its spare ones, and frees that memory once more.
  const ForkHold whole;
  try {
    return std::jthread([body = std::move(body)](const std::stop_token& stop) {
      prepare_own_thread();
      body(stop);
    });
  } catch (const std::system_error& error) {
    throw_no_thread(error);
  }
}

}  // namespace cellfeed::exec
