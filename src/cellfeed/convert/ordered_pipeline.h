// run_in_order: tasks produced on a pool's threads, consumed on the calling thread in order, within
// a byte budget. This is what lets reading, encoding and writing overlap while the output stays
// independent of the thread count.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::convert {

struct PipelineLimits {
  // Held by tasks begun and not yet consumed; one task is always admitted.
  std::int64_t bytes = 256 << 20;
  std::int64_t tasks = 64;
};

// produce(i) runs for i = 0..n-1 on the pool; consume(i, result) on the caller. plan_bytes(i)
// bounds what task i holds. The first error (or kCancelled once stop is requested) is thrown after
// all begun tasks have ended. REQUIRES: the caller is not one of the pool's threads.
template <typename Result>
void run_in_order(exec::ThreadPool& pool, std::int64_t n, const PipelineLimits& limits,
                  const std::function<std::int64_t(std::int64_t)>& plan_bytes,
                  const std::function<Result(std::int64_t)>& produce,
                  const std::function<void(std::int64_t, Result&&)>& consume,
                  std::stop_token stop = {}) {
  struct Slot {
    std::int64_t bytes = 0;
    bool done = false;
    std::optional<Result> result;
    std::exception_ptr error;
  };
  std::mutex mutex;
  std::condition_variable_any changed;
  std::int64_t outstanding = 0;  // submitted, not ended; guarded by mutex
  std::atomic<bool> abandoned{false};
  std::deque<std::shared_ptr<Slot>> window;
  std::int64_t next = 0, held_bytes = 0;

  const auto submit = [&](std::int64_t bytes) {
    auto slot = std::make_shared<Slot>();
    slot->bytes = bytes;
    {
      std::lock_guard lock(mutex);
      ++outstanding;
    }
    const auto run = [&, slot, i = next] {
      std::optional<Result> result;
      std::exception_ptr error;
      if (!abandoned) {
        try {
          result.emplace(produce(i));
        } catch (...) {
          error = std::current_exception();
        }
      }
      std::lock_guard lock(mutex);
      slot->result = std::move(result);
      slot->error = error;
      slot->done = true;
      --outstanding;
      changed.notify_all();
    };
    try {
      pool.submit(run);
    } catch (...) {
      std::lock_guard lock(mutex);
      --outstanding;
      throw;
    }
    window.push_back(std::move(slot));
    held_bytes += bytes;
    ++next;
  };
  const auto fill_window = [&] {
    while (next < n && std::ssize(window) < limits.tasks) {
      const std::int64_t bytes = plan_bytes(next);
      if (!window.empty() && held_bytes + bytes > limits.bytes) return;
      submit(bytes);
    }
  };
  const auto drain = [&] {
    abandoned = true;
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return outstanding == 0; });
  };
  try {
    for (std::int64_t i = 0; i < n; ++i) {
      fill_window();
      const auto slot = window.front();
      {
        std::unique_lock lock(mutex);
        if (!changed.wait(lock, stop, [&] { return slot->done; }) || stop.stop_requested())
          throw Error(ErrorKind::kCancelled, "stopped before the end");
      }
      if (slot->error) std::rethrow_exception(slot->error);
      consume(i, std::move(*slot->result));
      slot->result.reset();
      held_bytes -= slot->bytes;
      window.pop_front();
    }
  } catch (...) {
    drain();
    throw;
  }
  drain();
}

}  // namespace cellfeed::convert
