// Range coalescing: turns many small byte ranges into fewer, larger reads. Pure.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

using CoalescedRange = ByteRange;

// Where an input range lies: at `offset` inside reads[read].
struct RangePlace {
  std::int64_t read = 0;
  std::int64_t offset = 0;
};

struct CoalescedReads {
  std::vector<CoalescedRange> reads;  // ascending by offset; never overlap
  std::vector<RangePlace> places;     // one per input range, in the input's order
};

// Joins ranges whose gap is at most max_gap bytes while the read stays within max_length;
// overlapping ranges are always joined, and a range longer than max_length is one read of its own.
// Inputs may be unsorted, repeated, overlapping or empty. An empty range takes part in no read; its
// place is {0, 0}. REQUIRES: max_gap >= 0, max_length > 0.
CoalescedReads coalesce(std::span<const ByteRange> ranges, std::int64_t max_gap,
                        std::int64_t max_length);

}  // namespace cellfeed::io
