// What memcpy moves a second over the working set of a kernel, for the rate of that kernel to stand
// beside. Both count what is read and what is written, in this thread's own time.
#pragma once

#include <benchmark/benchmark.h>
#include <time.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <vector>

namespace cellfeed::micro {

// This thread's own time, so that a busy machine does not count.
struct Clock {
  static std::chrono::nanoseconds now() {
    timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  }
};

// Larger than the caches, so that what a batch is made of comes from memory.
inline constexpr std::size_t kPoolBytes = std::size_t{192} << 20;

// Where a kernel reads and writes: one piece after the other out of a pool into an output that is
// then written again.
struct WorkingSet {
  std::size_t read_bytes = 0;   // the pool
  std::size_t piece_bytes = 0;  // copied at a time: half of what a row moves
  std::size_t write_bytes = 0;  // the output
};

// The best of several rounds, each at least 64 MB.
inline double memcpy_bytes_per_second(const WorkingSet& set) {
  const std::size_t piece = std::max<std::size_t>(64, std::min(set.piece_bytes, set.write_bytes));
  const std::size_t n_pieces = std::max<std::size_t>(1, set.read_bytes / piece);
  const std::size_t n_places = std::max<std::size_t>(1, set.write_bytes / piece);
  std::vector<char> from(n_pieces * piece, 1), to(n_places * piece, 2);
  const std::size_t repeats = std::max(n_places, (std::size_t{64} << 20) / piece);
  double best = 0;
  std::size_t next = 0;
  for (int round = 0; round < 5; ++round) {
    const auto start = Clock::now();
    for (std::size_t i = 0; i < repeats; ++i) {
      std::memcpy(to.data() + i % n_places * piece, from.data() + next * piece, piece);
      benchmark::ClobberMemory();
      if (++next == n_pieces) next = 0;
    }
    const std::chrono::duration<double> taken = Clock::now() - start;
    best = std::max(best, 2.0 * static_cast<double>(repeats * piece) / taken.count());
  }
  return best;
}

// Rates of a benchmark that handled so many rows and moved so many bytes in all.
inline void report(benchmark::State& state, std::size_t rows, std::size_t moved_bytes,
                   const WorkingSet& set) {
  using benchmark::Counter;
  state.counters["rows/s"] = Counter(static_cast<double>(rows), Counter::kIsRate);
  state.counters["moved B/s"] = Counter(static_cast<double>(moved_bytes), Counter::kIsRate);
  state.counters["memcpy B/s"] = memcpy_bytes_per_second(set);
}

}  // namespace cellfeed::micro
