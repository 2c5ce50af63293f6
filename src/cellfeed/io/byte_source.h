// ByteSource: the seam for "where bytes live". README.md in this folder lists the steps to add one
// more. Thread-safe: all calls are const and may run at once on many threads.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cellfeed::io {

struct ReadRequest {
  std::int64_t offset = 0;
  std::span<std::byte> out;
};

struct ByteRange {
  std::int64_t offset = 0;
  std::int64_t length = 0;
};

// Reads under way. Not thread-safe. Lifetime: the source and the buffers outlive it.
class PendingReads {
 public:
  PendingReads() = default;
  PendingReads(const PendingReads&) = delete;
  PendingReads& operator=(const PendingReads&) = delete;
  // Stops what has not begun; afterwards nothing writes to the buffers.
  virtual ~PendingReads() = default;
  // Returns when every byte is there. Throws the first error, and again when called again.
  virtual void wait() = 0;
};

// What reads cost, for who plans them.
struct ReadCosts {
  // Reading this much unused costs less than another read.
  std::int64_t gap_bytes = 8 << 10;
  // A read of more gains nothing over several at once.
  std::int64_t max_read_bytes = 1 << 20;
  // To be read at once where little is wanted and what lies around it may be wanted soon; 0: as who
  // reads likes.
  std::int64_t page_bytes = 0;
  // With so many bytes of reads under way it is busy: what comes in the time that a read takes, and
  // as much again that is asked for meanwhile. Enough for any local disk.
  std::int64_t in_flight_bytes = 48 << 20;
};

class ByteSource {
 public:
  virtual ~ByteSource() = default;

  // Names the source in errors.
  virtual const std::string& path() const = 0;
  // Fixed when the source is opened.
  virtual std::int64_t size() const = 0;
  // False where the bytes were written to since the source was opened, as far as their size and
  // time of change tell. Another file that took the name is no matter: this one is read on.
  virtual bool is_unchanged() const { return true; }
  // What really serves the reads ("mmap", "pread", "io_uring", ...), fallbacks included.
  virtual std::string_view backend_name() const = 0;

  // Fills out with the bytes at offset. Throws kCorruptData when they are not all inside the
  // source.
  virtual void read(std::int64_t offset, std::span<std::byte> out) const = 0;

  // Fills every request, many at once where the source can; the order of requests is free. All are
  // checked before the first byte is read. After an error the contents of the buffers are
  // unspecified, but nothing writes to them.
  virtual void read_many(std::span<const ReadRequest> requests) const;

  // As read_many, but need not wait: the reads of many calls, and of many sources, are then under
  // way together. Null when all bytes are there already.
  virtual std::unique_ptr<PendingReads> begin_read_many(
      std::span<const ReadRequest> requests) const;

  // May change as the source finds out.
  virtual ReadCosts costs() const { return {}; }

  // A power of two; read_many copies nothing where offset, length and address are multiples of it.
  virtual std::int64_t alignment() const { return 1; }

  // The whole source where it is addressable memory, else empty (also for an empty source).
  // Lifetime: as long as the source. A file that is shortened while mapped ends the process with
  // SIGBUS unless it is guarded, so writers replace files (AtomicFile) and never shorten them.
  virtual std::span<const std::byte> map() const { return {}; }
  // Whether bytes of a guarded map() could not be read, and were zeros instead. For good.
  virtual bool has_lost_pages() const { return false; }
  // Whether the bytes at these offsets can be read through map() without waiting for the disk;
  // false too where the system does not say. May begin to read them. REQUIRES: offsets inside the
  // source.
  virtual bool is_cached(std::span<const std::int64_t>) const { return true; }
  // Has these ranges read into the memory behind map(), many at once; waits for room in the disk's
  // queue, and not for the reads. A hint: what fails here fails again, and is thrown, when it is
  // read. Ascending ranges read best. REQUIRES: ranges inside the source.
  virtual void will_read(std::span<const ByteRange>) const {}
  // Lets the system take back the memory behind what was read, for whoever reads a source once from
  // end to end. Reading it again is legal, and costs page faults.
  virtual void release_pages() const {}
};

// Throws kCorruptData ("truncated", with offset, wanted bytes and size) unless [offset, offset +
// length) is inside.
void check_range(const ByteSource& source, std::int64_t offset, std::int64_t length);
void check_requests(const ByteSource& source, std::span<const ReadRequest> requests);
// Throws kIo where pages were lost: for readers of a guarded map, before what they read is used.
void require_all_pages(const ByteSource& source);
// The same, and throws kCorruptData where it was written to since it was opened: of a file that was
// shortened, what is left of its last page reads as zeros.
void require_unchanged(const ByteSource& source);

}  // namespace cellfeed::io
