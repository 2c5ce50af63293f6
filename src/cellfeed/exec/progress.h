// Progress: how far a long operation is, for the caller to show.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>
#include <utility>

namespace cellfeed::exec {

struct Progress {
  std::string_view phase;  // "writing shards", "ordering genes", ...
  std::int64_t done = 0;   // cells (bytes for "verifying"), those of an earlier run included
  std::int64_t total = 0;
  double rate = 0;  // per second, in this run
};

// Called from the thread that started the operation, after each piece.
using ProgressCallback = std::function<void(const Progress&)>;

class ProgressMeter {
 public:
  ProgressMeter(ProgressCallback callback, std::string_view phase, std::int64_t total,
                std::int64_t done_before = 0)
      : callback_(std::move(callback)),
        phase_(phase),
        total_(total),
        done_before_(done_before),
        done_(done_before) {}

  void advance(std::int64_t amount) {
    done_ += amount;
    if (callback_) callback_({phase_, done_, total_, rate()});
  }
  double seconds() const {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count();
  }
  double rate() const {
    const double elapsed = seconds();
    return elapsed > 0 ? static_cast<double>(done_ - done_before_) / elapsed : 0;
  }

 private:
  ProgressCallback callback_;
  std::string_view phase_;
  std::int64_t total_;
  std::int64_t done_before_;
  std::int64_t done_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace cellfeed::exec
