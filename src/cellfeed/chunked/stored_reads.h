// StoredReads: stored ranges on their way into memory from sources that have no map(), few large
// reads of all of them at once. Not thread-safe, but for bytes(). Lifetime: the sources outlive it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/range_coalescing.h"
#include "cellfeed/io/read_buffer.h"

namespace cellfeed::chunked {

class StoredReads {
 public:
  // Returns the range's number. REQUIRES: before begin().
  std::size_t add(const io::ByteSource& source, io::ByteRange range);
  void begin();
  // Throws what the sources throw, and again when called again.
  void wait();
  // REQUIRES: wait() has returned.
  std::span<const std::byte> bytes(std::size_t number) const;
  std::int64_t bytes_held() const;

 private:
  // What is read of one source.
  struct OfSource {
    const io::ByteSource* source = nullptr;
    std::vector<io::ByteRange> ranges;
    io::CoalescedReads plan;
    std::vector<std::int64_t> begins;  // of each read, in the buffer
    io::ReadBuffer buffer;
    std::unique_ptr<io::PendingReads> pending;  // goes before the buffer
  };
  struct Place {
    std::size_t source = 0;
    std::size_t range = 0;
  };

  std::vector<OfSource> sources_;  // as a rule one
  std::vector<Place> places_;
};

}  // namespace cellfeed::chunked
