// Counters of a loader. Thread-safe: every field is updated with relaxed atomics.
#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cellfeed::loader {

struct Counters {
  // One sum of label entropies for each obs column that is loaded.
  explicit Counters(std::size_t n_cols)
      : entropy_bits(std::make_unique<std::atomic<double>[]>(n_cols)) {}

  std::atomic<std::int64_t> cells{0};
  std::atomic<std::int64_t> batches{0};
  std::atomic<std::int64_t> nnz{0};
  std::atomic<std::int64_t> bytes_read{0};
  std::atomic<std::int64_t> bytes_used{0};
  std::atomic<std::int64_t> wait_ns{0};    // the consumer, for a batch that was not ready
  std::atomic<std::int64_t> fetch_ns{0};   // read and inflate
  std::atomic<std::int64_t> ready_sum{0};  // batches ready at each next(), for the mean queue depth
  std::atomic<std::int64_t> peak_bytes{0};  // of the memory budget
  // From each iteration's first next() to its latest batch.
  std::atomic<std::int64_t> elapsed_ns{0};
  std::atomic<std::int64_t> assembled{0};  // batches that entropy_bits sums over
  std::unique_ptr<std::atomic<double>[]> entropy_bits;
  // Summed over the threads that decode, which add to them after each slice, away from the rest.
  alignas(64) std::atomic<std::int64_t> decode_ns{0};
  std::atomic<std::int64_t> transform_ns{0};
};

inline std::int64_t now_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

}  // namespace cellfeed::loader
