#include "cellfeed/io/read_ahead.h"

#include <algorithm>
#include <utility>

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
constexpr std::int64_t kMaxAheadBytes = 8 << 20;
// What is asked for once, or not at all, where ranges are widened; and how wide they become. The
// first calls are narrow, so that the first batch does not wait for what it does not need.
constexpr std::int64_t kUnitBytes = 8 << 10;
constexpr std::int32_t kMostDoublings = 3;

// Of all sources that are read ahead.
std::atomic<std::int64_t> total_bytes{0};

}  // namespace

ReadAhead::ReadAhead(const ByteSource& source, ReadAheadOptions options)
    : source_(source),
      options_(std::move(options)),
      bytes_(options_.bytes < 0 ? source.size() : options_.bytes) {
  total_bytes += bytes_;
}

ReadAhead::~ReadAhead() { total_bytes -= bytes_; }

std::vector<std::int64_t> ReadAhead::sample(std::int64_t n_items,
                                            const AppendRanges& append) const {
  const std::int64_t every =
      std::clamp(n_items / kWantedSamples, kSampleEveryAtLeast, kSampleEvery);
  std::vector<ByteRange> ranges;
  for (std::int64_t item = 0; item < n_items; item += every) append(item, ranges);
  std::vector<std::int64_t> offsets;
  for (const ByteRange& range : ranges)
    if (range.length > 0) offsets.push_back(range.offset + range.length / 2);
  return offsets;
}

std::int64_t ReadAhead::ask(std::int64_t n_items, const AppendRanges& append) const {
  // Threads that meet here may look once more or less often.
  if (const auto left = calls_without_looking_.load(std::memory_order_relaxed); left > 0) {
    calls_without_looking_.store(left - 1, std::memory_order_relaxed);
  } else if (n_items <= items_unseen_.load(std::memory_order_relaxed)) {
    items_unseen_.fetch_sub(n_items, std::memory_order_relaxed);
    return 0;
  } else {
    std::vector<std::int64_t> offsets = sample(n_items, append);
    if (source_.is_cached(offsets)) {
      items_unseen_.store(kSampleEvery - n_items, std::memory_order_relaxed);
      return 0;
    }
    calls_without_looking_.store(kCallsWithoutLooking, std::memory_order_relaxed);
    choose_width(std::move(offsets));
  }
  std::vector<ByteRange> ranges;
  for (std::int64_t item = 0; item < n_items; ++item) append(item, ranges);
  std::vector<ByteRange> reads = coalesce(ranges, kMaxGapBytes, kMaxAheadBytes).reads;
  if (is_widening_.load(std::memory_order_acquire)) reads = widen(reads);
  source_.will_read(reads);
  std::int64_t bytes = 0;
  for (const ByteRange& read : reads) bytes += read.length;
  return bytes;
}

// What was asked for and is not there has gone again, or is on its way: it may be asked for again.
void ReadAhead::choose_width(std::vector<std::int64_t> sampled) const {
  const bool widens = total_bytes.load() <= options_.available_memory() / 2;
  if (widens) {
    std::erase_if(sampled, [this](std::int64_t offset) { return !is_asked(offset / kUnitBytes); });
    if (!source_.is_cached(sampled))
      for (auto& bits : asked()) bits.store(0, std::memory_order_relaxed);
  }
  is_widening_.store(widens, std::memory_order_release);
}

ReadAhead::Bits& ReadAhead::asked() const {
  return asked_.get(
      [this] { return Bits(static_cast<std::size_t>(source_.size() / (8 * kUnitBytes) + 1)); });
}

bool ReadAhead::is_asked(std::int64_t unit) const {
  const int bits = asked()[static_cast<std::size_t>(unit / 8)].load(std::memory_order_relaxed);
  return ((bits >> (unit % 8)) & 1) != 0;
}

// Long reads stay as they are: they keep the disk as busy, and what they need comes first.
std::vector<ByteRange> ReadAhead::widen(const std::vector<ByteRange>& reads) const {
  const std::int32_t doublings =
      std::min(n_widened_.load(std::memory_order_relaxed), kMostDoublings);
  if (doublings < kMostDoublings) ++n_widened_;
  const std::int64_t width = kUnitBytes << doublings;
  std::vector<ByteRange> wider;
  for (const ByteRange& read : reads) {
    const std::int64_t block = read.length < width ? width : kUnitBytes;
    const std::int64_t begin = read.offset / block * block;
    const std::int64_t end =
        std::min((read.offset + read.length + block - 1) / block * block, source_.size());
    for (std::int64_t at = begin; at < end; at += kUnitBytes) {
      const std::int64_t unit = at / kUnitBytes;
      if (is_asked(unit)) continue;
      asked()[static_cast<std::size_t>(unit / 8)].fetch_or(
          static_cast<std::uint8_t>(1 << (unit % 8)), std::memory_order_relaxed);
      const std::int64_t length = std::min(kUnitBytes, end - at);
      if (!wider.empty() && wider.back().offset + wider.back().length == at)
        wider.back().length += length;
      else
        wider.push_back({at, length});
    }
  }
  return wider;
}

}  // namespace cellfeed::io
