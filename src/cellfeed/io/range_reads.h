// RangeReads: ranges on their way into memory that is theirs, few large reads of all of them at
// once. Not thread-safe, but for bytes(). Lifetime: the sources outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/range_coalescing.h"
#include "cellfeed/io/read_buffer.h"

namespace cellfeed::io {

class RangeReads {
 public:
  // Gaps between ranges that are read too are as long as the costs of their source say, and no
  // longer than this.
  explicit RangeReads(std::int64_t longest_gap = std::numeric_limits<std::int64_t>::max())
      : longest_gap_(longest_gap) {}
  // Returns the range's number; they count from 0. REQUIRES: before begin().
  std::size_t add(const ByteSource& source, ByteRange range);
  void begin();
  // Throws what the sources throw, and again when called again.
  void wait();
  // Where the range lies, or will once wait() has returned; bytes behind it may be read too, as far
  // as a buffer's padding goes. REQUIRES: begun.
  std::span<const std::byte> bytes(std::size_t number) const;
  // Of the reads, gaps between ranges included.
  std::int64_t bytes_read() const;
  std::int64_t bytes_held() const;
  // The most that n ranges of one source, n_bytes long in all, hold.
  static std::int64_t planned_bytes(const ByteSource& source, std::int64_t n, std::int64_t n_bytes);

 private:
  // What is read of one source.
  struct OfSource {
    const ByteSource* source = nullptr;
    std::vector<ByteRange> ranges;
    std::vector<ByteRange> blocks;  // the whole blocks of the source that the ranges lie in
    CoalescedReads plan;
    std::vector<std::int64_t> begins;  // of each read, in the buffer
    ReadBuffer buffer;
    std::unique_ptr<PendingReads> pending;  // goes before the buffer
  };
  struct Place {
    std::size_t source = 0;
    std::size_t range = 0;
  };
  void begin(OfSource& of) const;

  std::int64_t longest_gap_;
  std::vector<OfSource> sources_;  // as a rule one
  std::vector<Place> places_;
};

}  // namespace cellfeed::io
