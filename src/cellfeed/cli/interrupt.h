// InterruptGuard: Ctrl-C (SIGINT) and SIGTERM as a stop request instead of a sudden death.
#pragma once

#include <signal.h>

#include <stop_token>
#include <thread>

namespace cellfeed::cli {

// While it lives: the first signal requests a stop, a second one ends the process at once; SIGXFSZ
// and SIGPIPE become errors of the write that caused them. One at a time in a process.
class InterruptGuard {
 public:
  explicit InterruptGuard(std::stop_source stop);
  ~InterruptGuard();
  InterruptGuard(const InterruptGuard&) = delete;
  InterruptGuard& operator=(const InterruptGuard&) = delete;

  // The signal that asked to stop, or 0.
  static int signal_received();

 private:
  int pipe_[2] = {-1, -1};
  struct sigaction old_int_ {
  }, old_term_{}, old_xfsz_{}, old_pipe_{};
  std::jthread watcher_;  // a handler may not request a stop itself: that is not signal-safe
};

}  // namespace cellfeed::cli
