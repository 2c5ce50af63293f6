// SeriesWork: what the steps of a build share: threads, a budget, progress, and a stop that is
// asked for. Thread-safe: advance, check_stop.
#pragma once

#include <atomic>
#include <cstdint>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/exec/progress.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::series {

class SeriesWork {
 public:
  // Throws kInvalidArgument. threads: 0 is one a processor.
  SeriesWork(int threads, std::int64_t memory_budget, exec::ProgressCallback progress,
             std::stop_token stop, std::string output_dir)
      : n_threads_(exec::checked_thread_count(threads)),
        memory_budget_(memory_budget),
        progress_(std::move(progress)),
        stop_(std::move(stop)),
        output_dir_(std::move(output_dir)),
        pool_(n_threads_) {
    exec::check_memory_budget(memory_budget);
  }

  exec::ThreadPool& pool() { return pool_; }
  int n_threads() const { return n_threads_; }
  std::int64_t memory_budget() const { return memory_budget_; }
  // Of one thread.
  std::int64_t share() const { return memory_budget_ / (2 * n_threads_); }

  // Half of the budget is for rows that are kept until they are written: whether so many bytes of
  // it are left, which are then taken.
  bool take_memory(std::int64_t bytes) {
    if (kept_bytes_.fetch_add(bytes) + bytes <= memory_budget_ / 2) return true;
    kept_bytes_.fetch_sub(bytes);
    return false;
  }

  void begin_phase(std::string_view phase, std::int64_t total) {
    meter_.emplace(progress_, phase, total);
  }
  void advance(std::int64_t amount) {
    check_stop();
    const std::lock_guard lock(meter_mutex_);
    meter_->advance(amount);
  }
  void check_stop() const {
    if (stop_.stop_requested())
      throw Error(ErrorKind::kCancelled, "stopped before the end", output_dir_);
  }

 private:
  const int n_threads_;
  const std::int64_t memory_budget_;
  const exec::ProgressCallback progress_;
  const std::stop_token stop_;
  const std::string output_dir_;
  exec::ThreadPool pool_;
  std::atomic<std::int64_t> kept_bytes_{0};
  std::mutex meter_mutex_;
  std::optional<exec::ProgressMeter> meter_;  // guarded by meter_mutex_
};

}  // namespace cellfeed::series
