// StopScope: what asks the work of a thread to end, for whatever waits long below it: for servers,
// and between tries. Thread-safe.
#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <stop_token>

namespace cellfeed::exec {

// The calling thread works for who has this token, from construction to destruction; tasks that it
// gives to a ThreadPool meanwhile do too. An empty token: what it does is to be done in any case.
class StopScope {
 public:
  explicit StopScope(std::stop_token stop);
  ~StopScope();
  StopScope(const StopScope&) = delete;
  StopScope& operator=(const StopScope&) = delete;

 private:
  std::stop_token outer_;
};

// Of the innermost scope of this thread; empty outside of all.
const std::stop_token& current_stop();
// Throws kCancelled once that is asked to stop.
void throw_if_stopped();

// As changed.wait(lock, is_over), and as sleep_for; throw kCancelled as soon as the work of the
// thread is asked to stop.
template <typename Predicate>
void wait_unless_stopped(std::condition_variable_any& changed, std::unique_lock<std::mutex>& lock,
                         Predicate is_over) {
  if (!changed.wait(lock, current_stop(), is_over)) throw_if_stopped();
}
void sleep_unless_stopped(std::chrono::nanoseconds time);

}  // namespace cellfeed::exec
