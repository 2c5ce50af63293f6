#include "cellfeed/cli/interrupt.h"

#include <fcntl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <system_error>

#include "cellfeed/base/error.h"

namespace cellfeed::cli {
namespace {

std::atomic<int> received{0};
std::atomic<int> write_end{-1};

void handle(int signal) {
  const int saved = errno;
  int none = 0;
  if (!received.compare_exchange_strong(none, signal)) _exit(128 + signal);
  const char byte = 1;
  if (::write(write_end.load(), &byte, 1) != 1) _exit(128 + signal);
  errno = saved;
}

}  // namespace

InterruptGuard::InterruptGuard(std::stop_source stop) {
  if (::pipe2(pipe_, O_CLOEXEC) != 0) throw_errno(errno, {}, "make a pipe");
  received = 0;
  write_end = pipe_[1];
  const auto watch = [read_end = pipe_[0], stop]() mutable {
    char byte = 0;
    while (::read(read_end, &byte, 1) < 0 && errno == EINTR) {
    }
    if (byte == 1) stop.request_stop();
  };
  try {
    watcher_ = std::jthread(watch);
  } catch (const std::system_error& error) {
    ::close(pipe_[0]);
    ::close(pipe_[1]);
    throw_error(ErrorKind::kIo, {},
                "cannot start a thread: {}; raise the limit of processes (ulimit -u) or of memory "
                "(ulimit -v)",
                error.code().message());
  }
  struct sigaction action {};
  action.sa_handler = handle;
  ::sigaction(SIGINT, &action, &old_int_);
  ::sigaction(SIGTERM, &action, &old_term_);
  action.sa_handler = SIG_IGN;
  ::sigaction(SIGXFSZ, &action, &old_xfsz_);
  ::sigaction(SIGPIPE, &action, &old_pipe_);
}

InterruptGuard::~InterruptGuard() {
  ::sigaction(SIGINT, &old_int_, nullptr);
  ::sigaction(SIGTERM, &old_term_, nullptr);
  ::sigaction(SIGXFSZ, &old_xfsz_, nullptr);
  ::sigaction(SIGPIPE, &old_pipe_, nullptr);
  ::close(pipe_[1]);  // ends the watcher
  watcher_.join();
  ::close(pipe_[0]);
}

int InterruptGuard::signal_received() { return received; }

}  // namespace cellfeed::cli
