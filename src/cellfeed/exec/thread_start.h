// start_thread: a thread for work of ours. Signals are left to the threads of the application.
// Thread-safe.
#pragma once

#include <sched.h>

#include <stop_token>
#include <system_error>
#include <thread>
#include <utility>

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

// body(stop) must not throw. Throws kIo where the system gives no thread, std::bad_alloc.
template <typename Body>
std::jthread start_thread(Body body) {
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
