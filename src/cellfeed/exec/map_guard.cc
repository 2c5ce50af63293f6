// Guarded maps are in a list that the signal handler walks without a lock: entries are used again
// and never freed.
#include "cellfeed/exec/map_guard.h"

#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::exec {

struct GuardedMap {
  std::atomic<std::uintptr_t> begin{0};  // 0: free
  std::atomic<std::uintptr_t> end{0};
  std::atomic<bool> has_lost_pages{false};
  GuardedMap* next = nullptr;  // in the list of all
};

namespace {

std::atomic<GuardedMap*> first_map{nullptr};
// Of any map, ever: who asks for each of thousands of maps need not look at them.
std::atomic<bool> has_lost_any{false};
// What SIGBUS did before. Never freed, as a handler may be looking at it.
std::atomic<const struct sigaction*> previous_action{nullptr};

struct Guards {
  ForkSafeMutex mutex;  // guards what follows
  std::vector<GuardedMap*> free;
  std::size_t n_made = 0;
};

// Sources may be closed while the process ends.
Guards& guards() {
  static auto* all = new Guards;
  return *all;
}

// Async-signal-safe, as all that a handler calls: mmap goes to the system past the C library.
bool put_zeros(std::uintptr_t address) noexcept {
  for (GuardedMap* map = first_map.load(); map != nullptr; map = map->next) {
    const std::uintptr_t begin = map->begin.load(), end = map->end.load();
    if (begin == 0 || address < begin || address >= end) continue;
    const auto page_bytes = static_cast<std::uintptr_t>(::getpagesize());
    const std::uintptr_t page = address / page_bytes * page_bytes;
    // Before there are zeros to read, so that nobody reads them and finds nothing lost.
    map->has_lost_pages.store(true);
    has_lost_any.store(true);
    return ::syscall(SYS_mmap, page, end - page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED,
                     -1, 0) != -1;
  }
  return false;
}

// To whoever had the signal before; a second time from there on, ends the process as ever.
void pass_on(int signal, siginfo_t* info, void* context) noexcept {
  static std::atomic<pid_t> passing{0};
  const auto thread = static_cast<pid_t>(::syscall(SYS_gettid));
  const struct sigaction* previous = previous_action.load();
  const bool has_handler =
      previous != nullptr && ((previous->sa_flags & SA_SIGINFO) != 0 ||
                              (previous->sa_handler != SIG_DFL && previous->sa_handler != SIG_IGN));
  if (has_handler && passing.exchange(thread) != thread) {
    if ((previous->sa_flags & SA_SIGINFO) != 0)
      previous->sa_sigaction(signal, info, context);
    else
      previous->sa_handler(signal);
    passing.store(0);
    return;
  }
  struct sigaction standard {};
  standard.sa_handler = SIG_DFL;
  ::sigaction(signal, &standard, nullptr);
  if (info->si_code <= 0) ::raise(signal);  // sent by a process; a page that is lost faults again
}

void on_bus_error(int signal, siginfo_t* info, void* context) {
  const int kept_errno = errno;
  const bool is_ours =
      info->si_code == BUS_ADRERR && put_zeros(reinterpret_cast<std::uintptr_t>(info->si_addr));
  if (!is_ours) pass_on(signal, info, context);
  errno = kept_errno;
}

bool is_taken(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == on_bus_error;
}

// REQUIRES: the mutex is held.
void take_signals() {
  struct sigaction now {};
  if (::sigaction(SIGBUS, nullptr, &now) != 0 || is_taken(now)) return;
  previous_action.store(new struct sigaction(now));
  struct sigaction ours {};
  ours.sa_sigaction = on_bus_error;
  ours.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
  ::sigaction(SIGBUS, &ours, nullptr);
}

}  // namespace

MapGuard::MapGuard(std::span<const std::byte> map) : map_(nullptr) {
  const std::lock_guard lock(guards().mutex);
  take_signals();
  if (!guards().free.empty()) {
    map_ = guards().free.back();
    guards().free.pop_back();
  } else {
    guards().free.reserve(guards().n_made + 1);
    map_ = new GuardedMap;
    ++guards().n_made;
    map_->next = first_map.load();
    first_map.store(map_);
  }
  const auto begin = reinterpret_cast<std::uintptr_t>(map.data());
  map_->has_lost_pages.store(false);
  map_->end.store(begin + map.size());
  map_->begin.store(begin);
}

MapGuard::~MapGuard() {
  map_->begin.store(0);
  const std::lock_guard lock(guards().mutex);
  guards().free.push_back(map_);  // there is room for all
}

bool MapGuard::has_lost_pages() const { return has_lost_any.load() && map_->has_lost_pages.load(); }

void take_lost_page_signals() {
  struct sigaction now {};
  if (first_map.load() == nullptr) return;
  if (::sigaction(SIGBUS, nullptr, &now) == 0 && is_taken(now)) return;
  const std::lock_guard lock(guards().mutex);
  take_signals();
}

}  // namespace cellfeed::exec
