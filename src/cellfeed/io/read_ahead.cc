#include "cellfeed/io/read_ahead.h"

#include <algorithm>

#include "cellfeed/io/range_coalescing.h"

namespace cellfeed::io {
namespace {

// A look costs about as much as decoding half a row. What slips through a sample of a large request
// is few rows, each read by a page fault.
constexpr std::int64_t kSampleEvery = 128;
constexpr std::int64_t kWantedSamples = 16;
constexpr std::int64_t kSampleEveryAtLeast = 16;
constexpr std::int32_t kCallsWithoutLooking = 15;
// Disks move this much in the time of one more read.
constexpr std::int64_t kMaxGapBytes = 8 << 10;
constexpr std::int64_t kMaxReadBytes = 8 << 20;

}  // namespace

bool ReadAhead::is_sample_cached(std::int64_t n_items, const AppendRanges& append) const {
  const std::int64_t every =
      std::clamp(n_items / kWantedSamples, kSampleEveryAtLeast, kSampleEvery);
  std::vector<ByteRange> ranges;
  for (std::int64_t item = 0; item < n_items; item += every) append(item, ranges);
  std::vector<std::int64_t> offsets;
  for (const ByteRange& range : ranges)
    if (range.length > 0) offsets.push_back(range.offset + range.length / 2);
  return source_.is_cached(offsets);
}

std::int64_t ReadAhead::ask(std::int64_t n_items, const AppendRanges& append) const {
  // Threads that meet here may look once more or less often.
  if (const auto left = calls_without_looking_.load(std::memory_order_relaxed); left > 0)
    calls_without_looking_.store(left - 1, std::memory_order_relaxed);
  else if (is_sample_cached(n_items, append))
    return 0;
  else
    calls_without_looking_.store(kCallsWithoutLooking, std::memory_order_relaxed);
  std::vector<ByteRange> ranges;
  for (std::int64_t item = 0; item < n_items; ++item) append(item, ranges);
  const CoalescedReads plan = coalesce(ranges, kMaxGapBytes, kMaxReadBytes);
  source_.will_read(plan.reads);
  std::int64_t bytes = 0;
  for (const ByteRange& read : plan.reads) bytes += read.length;
  return bytes;
}

}  // namespace cellfeed::io
