#include "cellfeed/io/range_coalescing.h"

#include <algorithm>
#include <limits>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

std::int64_t end_of(const ByteRange& range) { return range.offset + range.length; }

// Positions of the ranges that hold bytes, by offset.
std::vector<std::int64_t> sorted_order(std::span<const ByteRange> ranges) {
  std::vector<std::int64_t> order;
  order.reserve(ranges.size());
  bool is_sorted = true;
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ByteRange& range = ranges[i];
    const bool is_sane = range.offset >= 0 && range.length >= 0 &&
                         range.length <= std::numeric_limits<std::int64_t>::max() - range.offset;
    if (!is_sane) {
      throw_invalid("byte range is negative or overflows: offset {}, length {}", range.offset,
                    range.length);
    }
    if (range.length == 0) continue;
    is_sorted =
        is_sorted &&
        (order.empty() || ranges[static_cast<std::size_t>(order.back())].offset <= range.offset);
    order.push_back(static_cast<std::int64_t>(i));
  }
  if (!is_sorted) {
    std::ranges::stable_sort(
        order, {}, [&](std::int64_t i) { return ranges[static_cast<std::size_t>(i)].offset; });
  }
  return order;
}

}  // namespace

CoalescedReads coalesce(std::span<const ByteRange> ranges, std::int64_t max_gap,
                        std::int64_t max_length) {
  if (max_gap < 0) throw_invalid("max_gap cannot be negative: {}", max_gap);
  if (max_length <= 0) throw_invalid("max_length must be above 0, not {}", max_length);
  CoalescedReads result;
  result.places.resize(ranges.size());
  std::int64_t read_end = 0;
  for (const std::int64_t i : sorted_order(ranges)) {
    const ByteRange& range = ranges[static_cast<std::size_t>(i)];
    bool joins = false;
    if (!result.reads.empty()) {
      const CoalescedRange& read = result.reads.back();
      const std::int64_t new_end = std::max(read_end, end_of(range));
      const bool overlaps = range.offset < read_end;
      const bool is_near = range.offset - read_end <= max_gap;
      joins = overlaps || (is_near && new_end - read.offset <= max_length);
    }
    if (!joins) {
      result.reads.push_back({range.offset, 0});
      read_end = range.offset;
    }
    CoalescedRange& read = result.reads.back();
    read_end = std::max(read_end, end_of(range));
    read.length = read_end - read.offset;
    result.places[static_cast<std::size_t>(i)] = {std::ssize(result.reads) - 1,
                                                  range.offset - read.offset};
  }
  return result;
}

}  // namespace cellfeed::io
