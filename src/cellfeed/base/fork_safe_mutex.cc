#include "cellfeed/base/fork_safe_mutex.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>

namespace cellfeed {
namespace {

// Threads that hold locks; with kForking while a fork waits for them or happens. Four bytes, which
// the kernel waits on without a lock of the library's own.
constexpr std::int32_t kForking = std::int32_t{1} << 30;
std::atomic<std::int32_t> n_holders{0};
thread_local std::int32_t n_held = 0;  // by this thread

// A thread that holds a lock gets further ones at once, even while a fork waits: it waits for this
// thread.
void enter() {
  if (n_held++ > 0) return;
  std::int32_t seen = n_holders.load(std::memory_order_relaxed);
  for (;;) {
    if ((seen & kForking) != 0) {
      n_holders.wait(seen);
      seen = n_holders.load(std::memory_order_relaxed);
    } else if (n_holders.compare_exchange_weak(seen, seen + 1, std::memory_order_acquire)) {
      return;
    }
  }
}

void leave() {
  if (--n_held > 0) return;
  if ((n_holders.fetch_sub(1, std::memory_order_release) & kForking) != 0) n_holders.notify_all();
}

std::int32_t own_share() { return n_held > 0 ? 1 : 0; }

void wait_for_holders() {
  std::int32_t seen = n_holders.load();
  for (;;) {
    if ((seen & kForking) != 0) {  // another thread forks
      n_holders.wait(seen);
      seen = n_holders.load();
    } else if (n_holders.compare_exchange_weak(seen, seen | kForking)) {
      break;
    }
  }
  while ((seen = n_holders.load()) != (kForking | own_share())) n_holders.wait(seen);
}

void let_go() {
  n_holders.store(own_share(), std::memory_order_release);
  n_holders.notify_all();
}

// Before main, so that no fork can come first.
const bool is_registered = [] {
  if (::pthread_atfork(wait_for_holders, let_go, let_go) != 0) std::abort();
  return true;
}();

}  // namespace

ForkHold::ForkHold() { enter(); }
ForkHold::~ForkHold() { leave(); }

void ForkSafeMutex::lock() {
  enter();
  mutex_.lock();
}

void ForkSafeMutex::unlock() {
  mutex_.unlock();
  leave();
}

}  // namespace cellfeed
