// FetchedRuns: some ranges of one array on their way into memory, such as the rows of a fetch:
// where they are mapped, or what was inflated for them and is kept. InflatingTasks inflate the
// chunks that several of them need. Lifetime: arrays, caches and ranges outlive them.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/chunked/chunked_array.h"
#include "cellfeed/io/range_reads.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::chunked {

// Of an array that is not mapped, and not kept whole, only the elements of the ranges are kept:
// each chunk is inflated once, or found in the cache, what the ranges need is copied out, and the
// rest is let go. So what is held was known before. Thread-safe, but for what says otherwise.
class FetchedRuns {
 public:
  // Locates the chunks.
  FetchedRuns(const ChunkedArray& array, const ChunkCache& cache,
              std::span<const EntryRange> ranges);

  const ChunkedArray& array() const { return array_; }
  // Whether ranges are read where they lie in the memory map.
  bool is_mapped() const { return array_.is_mapped(); }
  // Memory of the elements kept; 0 before slots_to_fill.
  std::int64_t bytes_held() const { return static_cast<std::int64_t>(kept_.size()); }

  // The chunks to inflate, or to copy from, as positions among those of the ranges. Makes room for
  // their elements. Not thread-safe.
  std::vector<std::size_t> slots_to_fill();
  bool is_cached(std::size_t slot) const;
  io::ByteRange stored_range(std::size_t slot) const { return array_.stored_range(chunks_[slot]); }
  // Of different slots at once. stored: the slot's stored range, where it was read already.
  // Returns the bytes read.
  std::int64_t fill(std::size_t slot, std::span<const std::byte> stored = {});
  // The ranges that need the slot's chunk. REQUIRES: the slot is one of slots_to_fill.
  std::span<const std::size_t> users(std::size_t slot) const {
    return std::span(users_).subspan(first_user_[slot], first_user_[slot + 1] - first_user_[slot]);
  }

  // Where range i lies. REQUIRES: mapped, or all slots are filled.
  void append_pieces(std::size_t i, std::vector<RowPiece>& pieces) const;

 private:
  void list_users();
  void copy_elements(std::size_t slot, const InflatedChunk& chunk);
  void fill_elements(std::size_t slot);
  template <typename Visit>
  void for_each_use(std::size_t slot, Visit&& visit);

  const ChunkedArray& array_;
  const ChunkCache& cache_;
  const std::span<const EntryRange> ranges_;
  std::vector<std::int64_t> chunks_;      // that hold any of the ranges: ascending, each once
  std::shared_ptr<InflatedArray> whole_;  // null where not all of the array is kept
  // Of each slot the ranges that need it: users_[first_user_[slot]] to that of the next.
  std::vector<std::size_t> first_user_;
  std::vector<std::size_t> users_;
  std::vector<std::int64_t> starts_;  // of each range among the elements kept
  matrix::Buffer<std::byte> kept_;
};

// What the ranges of an array take; 0 where they are mapped.
struct RunsPlan {
  std::int64_t bytes_held = 0;      // by FetchedRuns, and by InflatingTasks as they are stored
  std::int64_t bytes_inflated = 0;  // each chunk once, whole
};
RunsPlan plan_runs(const ChunkedArray& array, const ChunkCache& cache,
                   std::span<const EntryRange> ranges);

// The chunks that some arrays' ranges need, as tasks that inflate one each. Lifetime: a view of the
// runs.
class InflatingTasks {
 public:
  // Begins to read them where they are not in memory: by `ahead`, which may be null, into the map
  // of the file, or into memory of its own.
  InflatingTasks(std::span<FetchedRuns* const> runs, const io::ReadAhead* ahead);
  // Until all are read. REQUIRED before run.
  void wait() { reads_.wait(); }
  std::int64_t size() const { return std::ssize(tasks_); }
  // Of different tasks at once.
  void run(std::int64_t task);
  // Calls visit(i) for each range i, of the task's runs, that needs its chunk.
  template <typename Visit>
  void for_each_user(std::int64_t task, Visit&& visit) const {
    const Task& of = tasks_[static_cast<std::size_t>(task)];
    for (const std::size_t i : of.array->users(of.slot)) visit(i);
  }
  std::int64_t bytes_read() const { return bytes_read_; }  // as stored
  std::int64_t bytes_held() const { return reads_.bytes_held(); }

 private:
  struct Task {
    FetchedRuns* array = nullptr;
    std::size_t slot = 0;
    std::optional<std::size_t> read = {};  // of reads_
  };
  void begin_reads();
  void read_ahead(const io::ReadAhead& ahead) const;

  std::vector<Task> tasks_;
  io::RangeReads reads_;
  std::atomic<std::int64_t> bytes_read_{0};
};

// Has the bytes of the n_ranges ranges of each of the runs read into the map of the file, where
// they are mapped. Returns the bytes asked for.
std::int64_t read_runs_ahead(std::span<FetchedRuns* const> runs, std::int64_t n_ranges,
                             const io::ReadAhead& ahead, std::span<const std::byte> map);

}  // namespace cellfeed::chunked
