// PackedLog: the packed rows that are kept of one matrix, those that are on disk and those on their
// way there. A thread of its own writes segments; other processes' segments are found and used.
//
// Thread-safe, fork-safe: a forked child keeps rows of its own. Memory: 8 bytes and 1 bit for each
// row of the matrix, and queue_bytes.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/convert/cache/packed_place.h"
#include "cellfeed/convert/cache/packed_segment.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::convert {

struct PackedLogOptions {
  // Of rows that wait to be written. More: bursts that the disk does not follow are kept whole.
  std::int64_t queue_bytes = 32 << 20;
  // Segments are closed when they are so long, and hold one of 64 parts of all rows: a kill costs
  // the rows of the one that is open.
  std::int64_t segment_bytes = 16 << 20;
  // One that gets no more rows is closed after this.
  std::int64_t idle_ms = 2000;
  bool verifies = true;  // as OpenOptions::verify
};

class PackedWriter;

class PackedLog {
 public:
  // Opens what is there; makes the folder where it is not, and removes those of other versions of
  // the file. Where the folder is another user's, rows are read and none kept. Throws kIo where
  // there is none and none can be made.
  PackedLog(PackedPlace place, FileVersion version, const PackedMatrix& matrix,
            const PackedLogOptions& options);
  ~PackedLog();
  PackedLog(const PackedLog&) = delete;
  PackedLog& operator=(const PackedLog&) = delete;

  struct Place {
    std::int64_t segment = -1;  // -1: not kept
    std::int64_t row = 0;       // in it
  };
  // REQUIRES: 0 <= row < n_rows.
  Place find(std::int64_t row) const {
    const std::uint64_t entry = index_[row].load(std::memory_order_acquire);
    if (entry == 0) return {};
    return {static_cast<std::int64_t>(entry >> kRowBits) - 1,
            static_cast<std::int64_t>(entry & ((std::uint64_t{1} << kRowBits) - 1))};
  }
  // Null where its rows are found elsewhere by now. REQUIRES: found before.
  std::shared_ptr<const format::shard::CellsFile> segment(std::int64_t number) const;
  std::int64_t n_kept() const { return n_kept_.load(std::memory_order_relaxed); }
  bool is_complete() const { return n_kept() == matrix_.n_rows; }
  // For what waits until nobody reads.
  void note_reading() { last_reading_ns_.store(steady_ns(), std::memory_order_relaxed); }
  std::int64_t idle_ns() const {
    return steady_ns() - last_reading_ns_.load(std::memory_order_relaxed);
  }
  // Looks for segments of other processes, now and then; or at once.
  void look_for_more();
  void look_now();

  // Of rows that were decoded: true where they should be kept, which is then up to the caller.
  bool claim(std::int64_t row);
  // Memory for records that are kept next.
  format::shard::EncodedRows spare();
  // Takes the records of claimed rows. Waits a moment where the disk is behind; what still does not
  // fit is not kept this time.
  void keep(std::vector<std::uint64_t> rows, format::shard::EncodedRows encoded);
  // Claimed rows that will not be kept. is_for_good: and need not be claimed again.
  void give_up(std::span<const std::uint64_t> rows, bool is_for_good);
  // Returns when all rows that were kept before are segments, or could not be.
  void flush();

  // A segment that is damaged: its rows are no longer there.
  void drop(std::int64_t segment);
  // Why rows are no longer kept, or what else went wrong; once. Empty: nothing since.
  std::string take_warning();
  void warn(std::string text);

  const PackedPlace& place() const { return place_; }
  const io::OwnFolder& folder() const { return *folder_; }
  // Where all rows are written as shards, once they are there.
  std::string shards_dir() const { return place_.folder() + "/shards"; }
  bool is_writable() const { return is_writable_; }
  bool has_shards() const { return has_shards_.load(std::memory_order_relaxed); }
  // And their files are there as they were written, but for cells, which are looked at as they are
  // read.
  bool has_whole_shards() const;
  // Before they are written anew; rows are read from those that are open.
  void forget_shards();
  // The shards are whole: what they hold is removed elsewhere. Throws kCorruptData, and removes
  // them, where they are of a file that changed meanwhile; where that cannot be told, removes those
  // that are new: who made the others has looked.
  void take_shards(bool are_new);

 private:
  friend class PackedWriter;
  static constexpr int kRowBits = 40;
  static std::int64_t steady_ns();
  void open_folder();
  void remove_other_versions(const io::Directory& caches) const;
  // REQUIRE, as add: mutex_.
  void scan();
  void scan_shards();
  void add(PackedSegment segment);
  void remove(const PackedSegment& segment);
  void remove_shards_of(const PackedSegment& segment);
  PackedWriter& writer();
  void require_same_file() const;

  PackedPlace place_;  // settled once the folder is open
  const FileVersion version_;
  const PackedMatrix matrix_;
  const PackedLogOptions options_;
  std::optional<io::OwnFolder> folder_;
  bool is_writable_ = true;
  // Of each row: 0, or its place with its segment counted from 1. Set once the segment is there.
  std::unique_ptr<std::atomic<std::uint64_t>[]> index_;
  std::atomic<std::int64_t> n_kept_{0};
  std::atomic<bool> has_shards_{false};
  std::atomic<std::int64_t> next_look_ns_{0};
  std::atomic<std::int64_t> last_reading_ns_{0};

  mutable ForkSafeMutex mutex_;  // guards the two below
  std::vector<PackedSegment> segments_;
  std::string warning_;

  exec::PerProcess<std::unique_ptr<PackedWriter>> writer_;
};

}  // namespace cellfeed::convert
