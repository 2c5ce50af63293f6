// PackedWriter: writes the rows that a PackedLog keeps as segments, on a thread of its own.
// Thread-safe. Lives in one process: a forked child makes another. Lifetime: the log outlives it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stop_token>
#include <thread>
#include <vector>

#include "cellfeed/base/spares.h"
#include "cellfeed/convert/cache/packed_segment.h"

namespace cellfeed::convert {

class PackedLog;
class PackedWork;

class PackedWriter {
 public:
  PackedWriter(PackedLog& log, std::int64_t n_rows);
  ~PackedWriter();  // writes what was taken

  // As those of PackedLog.
  format::shard::EncodedRows spare() { return spares_.take(); }
  bool claim(std::int64_t row);
  void give_up(std::span<const std::uint64_t> rows);
  void keep(std::vector<std::uint64_t> rows, format::shard::EncodedRows encoded);
  void flush();

 private:
  struct Piece {
    std::vector<std::uint64_t> rows;
    format::shard::EncodedRows encoded;
    std::int64_t bytes() const { return std::ssize(encoded.bytes); }
  };
  using Clock = std::chrono::steady_clock;
  bool wait_for_room(std::unique_lock<std::mutex>& lock, std::int64_t bytes);
  void run();
  void write_queue(std::unique_lock<std::mutex>& lock);
  void write(Piece piece);
  bool is_full() const;
  void require_same_file();
  void close_segment();
  void fail(const std::exception& error);

  PackedLog& log_;
  // Bits of rows that are on their way.
  std::unique_ptr<std::atomic<std::uint64_t>[]> claimed_;
  std::atomic<bool> has_failed_{false};
  const Clock::time_point begun_ = Clock::now();
  Spares<format::shard::EncodedRows> spares_;  // their memory is used again

  // Of the thread alone.
  PackedWork* work_ = nullptr;
  std::optional<PackedSegmentWriter> open_;
  std::vector<std::uint64_t> open_rows_;

  std::mutex mutex_;  // guards all below but the last two
  std::condition_variable_any changed_;
  std::deque<Piece> queue_;
  std::int64_t queued_bytes_ = 0;
  std::uint64_t flushes_wanted_ = 0;
  std::uint64_t flushes_done_ = 0;
  Clock::duration waited_{0};  // of all threads that decode
  bool is_over_ = false;       // the thread has ended
  std::stop_source stop_;
  std::jthread thread_;
};

}  // namespace cellfeed::convert
