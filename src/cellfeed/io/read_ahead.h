// Read-ahead: has the disk fetch what is about to be read through a memory map, with many reads in
// flight. A page fault alone waits for one read at a time. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <vector>

#include "cellfeed/exec/available_memory.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

// Appends the byte ranges of one item, such as a row.
using AppendRanges = std::function<void(std::int64_t item, std::vector<ByteRange>& ranges)>;

struct ReadAheadOptions {
  std::int64_t bytes = -1;  // that items lie in; -1: the whole source
  std::function<std::int64_t()> available_memory = [] { return exec::available_memory(); };
};

// Watches one source. Looks at a sample of the items, of calls with few items at some calls only;
// when any of it is not in memory, asks for the ranges of all of them, joined and by offset,
// and for all of the next few calls too: of what is mostly in memory, a sample alone would miss the
// rest.
//
// Where all that this process reads ahead fits in half of the available memory, short reads are
// widened, call by call up to 64 KiB, and nothing is asked for twice: whoever reads most of a file
// in random order then needs a tenth of the reads. Thread-safe. Lifetime: the source outlives it.
class ReadAhead {
 public:
  explicit ReadAhead(const ByteSource& source, ReadAheadOptions options = {});
  ~ReadAhead();
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;

  // Returns the bytes asked for: 0 where all seems to be in memory. REQUIRES: ranges are inside the
  // source.
  std::int64_t ask(std::int64_t n_items, const AppendRanges& append) const;

 private:
  std::vector<std::int64_t> sample(std::int64_t n_items, const AppendRanges& append) const;
  void choose_width(std::vector<std::int64_t> missing) const;
  std::vector<ByteRange> widen(const std::vector<ByteRange>& reads) const;
  using Bits = std::vector<std::atomic<std::uint8_t>>;
  Bits& asked() const;
  bool is_asked(std::int64_t unit) const;

  const ByteSource& source_;
  const ReadAheadOptions options_;
  const std::int64_t bytes_;
  mutable std::atomic<std::int32_t> calls_without_looking_{0};
  // Items whose calls nobody looks at, since the last look found all in memory.
  mutable std::atomic<std::int64_t> items_unseen_{0};
  mutable std::atomic<bool> is_widening_{false};
  mutable std::atomic<std::int32_t> n_widened_{0};  // calls
  mutable exec::PerProcess<Bits> asked_;            // a bit for each unit of the source
};

}  // namespace cellfeed::io
