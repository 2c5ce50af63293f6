#include "cellfeed/io/range_coalescing.h"

#include <algorithm>
#include <array>
#include <limits>
#include <numeric>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

std::int64_t end_of(const ByteRange& range) { return range.offset + range.length; }

// A range that holds bytes, and its number.
struct Numbered {
  std::int64_t offset;
  std::int64_t number;
};

// Digit by digit, because comparing random offsets costs a wrongly predicted branch each. Keeps the
// order of equal offsets.
void sort_by_digits(std::vector<Numbered>& items) {
  constexpr int kDigitBits = 8;
  constexpr std::size_t kDigits = std::size_t{1} << kDigitBits;
  std::int64_t bits = 0;
  for (const Numbered& item : items) bits |= item.offset;
  std::vector<Numbered> sorted(items.size());
  for (int shift = 0; (bits >> shift) != 0; shift += kDigitBits) {
    const auto digit = [shift](const Numbered& item) {
      return static_cast<std::size_t>(item.offset >> shift) % kDigits;
    };
    std::array<std::size_t, kDigits> place{};
    for (const Numbered& item : items) ++place[digit(item)];
    std::exclusive_scan(place.begin(), place.end(), place.begin(), std::size_t{0});
    for (const Numbered& item : items) sorted[place[digit(item)]++] = item;
    items.swap(sorted);
    if (shift + kDigitBits >= 63) break;
  }
}

// The ranges that hold bytes, by offset; those of one offset in the input's order.
std::vector<Numbered> sort_by_offset(std::span<const ByteRange> ranges) {
  std::vector<Numbered> order;
  order.reserve(ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    const ByteRange& range = ranges[i];
    const bool is_sane = range.offset >= 0 && range.length >= 0 &&
                         range.length <= std::numeric_limits<std::int64_t>::max() - range.offset;
    if (!is_sane) {
      throw_invalid("byte range is negative or overflows: offset {}, length {}", range.offset,
                    range.length);
    }
    if (range.length > 0) order.push_back({range.offset, static_cast<std::int64_t>(i)});
  }
  if (!std::ranges::is_sorted(order, {}, &Numbered::offset)) sort_by_digits(order);
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
  for (const Numbered& next : sort_by_offset(ranges)) {
    const ByteRange& range = ranges[static_cast<std::size_t>(next.number)];
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
    result.places[static_cast<std::size_t>(next.number)] = {std::ssize(result.reads) - 1,
                                                            range.offset - read.offset};
  }
  return result;
}

}  // namespace cellfeed::io
