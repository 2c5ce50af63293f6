#include "cellfeed/exec/thread_start.h"

#include <pthread.h>
#include <signal.h>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {

void prepare_own_thread() {
  sigset_t signals;
  sigfillset(&signals);
  for (const int own : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT, SIGPROF}) {
    sigdelset(&signals, own);
  }
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::pthread_setname_np(::pthread_self(), "cellfeed");
}

ThreadProcessors::ThreadProcessors()
    : is_known_(::pthread_getaffinity_np(::pthread_self(), sizeof set_, &set_) == 0) {}

void ThreadProcessors::adopt() const {
  // Where the system refuses, the thread stays where it is: nothing is wrong but its place.
  if (is_known_) static_cast<void>(::pthread_setaffinity_np(::pthread_self(), sizeof set_, &set_));
}

void throw_no_thread(const std::system_error& error) {
  throw_error(ErrorKind::kIo, {},
              "cannot start a thread: {}; ask for fewer threads, or raise the limits of processes "
              "and of memory (ulimit -u, ulimit -v)",
              error.code().message());
}

}  // namespace cellfeed::exec
