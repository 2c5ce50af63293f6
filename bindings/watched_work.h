// Long work on a thread of its own, while the calling thread shows its progress and looks for
// Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/exec/thread_start.h"
#include "gil.h"

namespace cellfeed::bindings {

// What the work has reported, for the thread that waits. Thread-safe.
class ProgressBoard {
 public:
  struct Report {
    std::string phase;
    std::int64_t done = 0;
    std::int64_t total = 0;
    double rate = 0;
  };

  void post(const convert::Progress& progress) {
    const std::lock_guard lock(mutex_);
    latest_ = Report{std::string(progress.phase), progress.done, progress.total, progress.rate};
  }
  void finish() {
    const std::lock_guard lock(mutex_);
    is_finished_ = true;
    changed_.notify_all();
  }
  // True once the work is over. Waits no longer than that for it.
  bool wait(std::chrono::milliseconds timeout) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, timeout, [this] { return is_finished_; });
  }
  std::optional<Report> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(latest_, std::nullopt);
  }

 private:
  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  bool is_finished_ = false;
  std::optional<Report> latest_;
};

inline void show_progress(ProgressBoard& board, const nanobind::object& callback) {
  if (callback.is_none()) return;
  const auto report = board.take();
  if (!report) return;
  call_python([&] { callback(report->phase, report->done, report->total, report->rate); });
}

// The work under way for all threads of this process, for its end. Thread-safe.
class WatchedWork {
 public:
  static WatchedWork& instance() {
    return *of_processes->get([] { return std::make_unique<WatchedWork>(); });
  }

  // Work that a thread waits for.
  class Entry {
   public:
    // REQUIRES, where it is no part of other work: called by the thread that waits.
    explicit Entry(const std::stop_source& stop)
        : stop_(stop), is_part_(exec::current_stop().stop_possible()) {
      WatchedWork& all = instance();
      const std::lock_guard lock(all.mutex_);
      if (is_left_over(all)) stop_.request_stop();
      all.entries_.insert(this);
    }
    Entry(const Entry&) = delete;
    Entry& operator=(const Entry&) = delete;

    // Its work has ended: the process may.
    void end() {
      WatchedWork& all = instance();
      const std::lock_guard lock(all.mutex_);
      all.entries_.erase(this);
      all.changed_.notify_all();
    }
    // Whether the process ends, and it is not the thread that ends it that waits.
    bool is_left_over() {
      WatchedWork& all = instance();
      const std::lock_guard lock(all.mutex_);
      return is_left_over(all);
    }

   private:
    friend class WatchedWork;
    bool is_left_over(const WatchedWork& all) const {
      return !is_part_ && all.ender_ && *all.ender_ != waiting_;
    }
    std::stop_source stop_;
    const bool is_part_;
    const std::thread::id waiting_ = std::this_thread::get_id();
  };

  // Returns once no work goes on. What other threads begin later is stopped as soon as it begins;
  // what the calling one does, as in functions of atexit, is not.
  void stop_all() {
    std::unique_lock lock(mutex_);
    ender_ = std::this_thread::get_id();
    for (Entry* entry : entries_) entry->stop_.request_stop();
    changed_.wait(lock, [this] { return entries_.empty(); });
  }

 private:
  std::mutex mutex_;  // guards entries_ and ender_
  std::condition_variable changed_;
  std::set<Entry*> entries_;
  std::optional<std::thread::id> ender_;

  // Made when the program is loaded: what a thread makes at its first use is locked for ever in a
  // child that is forked meanwhile. Never destroyed: daemon threads outlive everything.
  static inline auto* const of_processes = new exec::PerProcess<std::unique_ptr<WatchedWork>>;
};

// Threads that calls run on: as many as run at once. Made and kept as the above.
inline auto* const call_threads = new exec::ThreadPool(exec::kMaxThreads);

// At the end of the interpreter: files that are being written by daemon threads are given up, and
// nothing is torn down under the feet of the threads that write them.
inline void stop_watched_work() {
  const ReleasedGil released;
  WatchedWork::instance().stop_all();
}

// Of a daemon thread, which has nobody to report to any more: Python ends it without a word.
inline void end_thread_if_stopped(const std::exception_ptr& failure) {
  try {
    std::rethrow_exception(failure);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kCancelled) return;
  } catch (...) {
    return;
  }
  PyErr_SetNone(PyExc_SystemExit);
  throw nanobind::python_error();
}

// work(ProgressCallback, stop_token) -> result, on another thread, which is in a StopScope of that
// token. callback: None, or f(phase, done, total, rate), called ten times a second at most. When it
// raises, or Ctrl-C does, or the work that it is a part of is asked to stop, so is it; it is waited
// for, and the exception goes on.
template <typename Work>
auto run_watched(const nanobind::object& callback, Work work) {
  constexpr std::chrono::milliseconds kLookInterval{100};
  using Result = decltype(work(convert::ProgressCallback(), std::stop_token()));
  const auto board = std::make_shared<ProgressBoard>();  // its thread may leave it last
  std::optional<Result> result;
  std::exception_ptr failure;
  std::stop_source stop;
  const std::stop_callback as_a_part(exec::current_stop(), [&stop] { stop.request_stop(); });
  WatchedWork::Entry entry(stop);
  const auto run = [&, board, processors = exec::ThreadProcessors()] {
    processors.adopt();
    {
      const exec::StopScope scope(stop.get_token());
      try {
        result.emplace(
            work([&board](const convert::Progress& p) { board->post(p); }, stop.get_token()));
      } catch (...) {
        failure = std::current_exception();
      }
    }
    entry.end();
    board->finish();
  };
  try {
    call_threads->submit(run);
  } catch (...) {
    entry.end();
    throw;
  }
  const auto wait = [&](std::chrono::milliseconds timeout) {
    const ReleasedGil released;
    return board->wait(timeout);
  };
  try {
    while (!wait(kLookInterval)) {
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      show_progress(*board, callback);
    }
  } catch (...) {
    stop.request_stop();
    while (!wait(kLookInterval)) {
    }
    throw;
  }
  if (failure) {
    if (entry.is_left_over()) end_thread_if_stopped(failure);
    std::rethrow_exception(failure);
  }
  show_progress(*board, callback);
  return *std::move(result);
}

}  // namespace cellfeed::bindings
