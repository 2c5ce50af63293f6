// Read-ahead: has the disk fetch what is about to be read through a memory map, with many reads in
// flight. A page fault alone waits for one read at a time. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

// Appends the byte ranges of one item, such as a row.
using AppendRanges = std::function<void(std::int64_t item, std::vector<ByteRange>& ranges)>;

// Watches one source. Looks at a sample of the items; when any of it is not in memory, asks for the
// ranges of all of them, joined and by offset, and for all of the next few calls too: of what is
// mostly in memory, a sample alone would miss the rest. Thread-safe. Lifetime: the source outlives
// it.
class ReadAhead {
 public:
  explicit ReadAhead(const ByteSource& source) : source_(source) {}

  // Returns the bytes asked for: 0 where all seems to be in memory. REQUIRES: ranges are inside the
  // source.
  std::int64_t ask(std::int64_t n_items, const AppendRanges& append) const;

 private:
  bool is_sample_cached(std::int64_t n_items, const AppendRanges& append) const;

  const ByteSource& source_;
  mutable std::atomic<std::int32_t> calls_without_looking_{0};
};

}  // namespace cellfeed::io
