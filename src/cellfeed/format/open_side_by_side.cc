#include "cellfeed/format/open_side_by_side.h"

#include <atomic>
#include <chrono>
#include <exception>
#include <mutex>

#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::format {
namespace {

constexpr int kRemoteAtOnce = 32;
// Longer than a step takes of what is in memory. Where round trips are shorter, one after another
// they cost little.
constexpr std::chrono::milliseconds kWaited{1};

}  // namespace

void open_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& open) {
  const int n_threads = is_local ? exec::default_thread_count() : kRemoteAtOnce;
  if (n <= 1 || n_threads == 1) {
    for (std::int64_t i = 0; i < n; ++i) open(i);
    return;
  }
  std::atomic<std::int64_t> first_bad{n};
  std::mutex mutex;  // guards the error, which is that of first_bad
  std::exception_ptr error;
  exec::shared_pool(n_threads)->parallel_for(n, [&](std::int64_t i) {
    if (i > first_bad) return;
    try {
      open(i);
    } catch (...) {
      const std::scoped_lock lock(mutex);
      if (i > first_bad) return;
      first_bad = i;
      error = std::current_exception();
    }
  });
  if (error) std::rethrow_exception(error);
}

void wait_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& wait) {
  if (!is_local) return open_side_by_side(n, false, wait);
  for (std::int64_t i = 0; i < n; ++i) wait(i);
}

void step_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& step) {
  using Clock = std::chrono::steady_clock;
  std::int64_t done = 0;
  for (auto begun = Clock::now(); done < n;) {
    step(done++);
    const auto now = Clock::now();
    if (!is_local && now - begun > kWaited) break;
    begun = now;
  }
  if (done < n) open_side_by_side(n - done, is_local, [&](std::int64_t i) { step(done + i); });
}

}  // namespace cellfeed::format
