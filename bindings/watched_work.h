// Long work on a thread of its own, while the calling thread shows its progress and looks for
// Ctrl-C.
#pragma once

#include <nanobind/nanobind.h>

#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>

#include "cellfeed/convert/progress.h"
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
  std::mutex mutex_;
  std::condition_variable changed_;
  bool is_finished_ = false;
  std::optional<Report> latest_;
};

inline void show_progress(ProgressBoard& board, const nanobind::object& callback) {
  if (callback.is_none()) return;
  if (const auto report = board.take())
    callback(report->phase, report->done, report->total, report->rate);
}

// work(ProgressCallback, stop_token) -> result. callback: None, or f(phase, done, total, rate),
// called ten times a second at most. When it raises, or Ctrl-C does, the work is asked to stop,
// waited for, and the exception goes on.
template <typename Work>
auto run_watched(const nanobind::object& callback, Work work) {
  constexpr std::chrono::milliseconds kLookInterval{100};
  using Result = decltype(work(convert::ProgressCallback(), std::stop_token()));
  ProgressBoard board;
  std::optional<Result> result;
  std::exception_ptr failure;
  std::jthread worker([&](const std::stop_token& stop) {
    try {
      result.emplace(work([&board](const convert::Progress& p) { board.post(p); }, stop));
    } catch (...) {
      failure = std::current_exception();
    }
    board.finish();
  });
  const auto wait = [&] {
    const ReleasedGil released;
    return board.wait(kLookInterval);
  };
  try {
    while (!wait()) {
      if (PyErr_CheckSignals() != 0) throw nanobind::python_error();
      show_progress(board, callback);
    }
  } catch (...) {
    const ReleasedGil released;
    worker.request_stop();
    worker.join();
    throw;
  }
  worker.join();
  if (failure) std::rethrow_exception(failure);
  show_progress(board, callback);
  return *std::move(result);
}

}  // namespace cellfeed::bindings
