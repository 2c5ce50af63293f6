// The reference for record kernels: every width, one number at a time.
#include <algorithm>
#include <limits>

#include "cellfeed/format/shard/record/record_kernels.h"
#include "cellfeed/format/shard/record/record_layout.h"

namespace cellfeed::format::shard::record {
namespace {

constexpr std::uint32_t kLargest = std::numeric_limits<std::int32_t>::max();

// Unpacks one block of one stream; false when it is not one.
bool unpack_stream(const std::uint8_t* packed, StreamWidths widths, int entries,
                   std::uint32_t largest, std::uint32_t* numbers) {
  for (int i = 0; i < entries; ++i) {
    numbers[i] = static_cast<std::uint32_t>(
        load_bits(packed, static_cast<std::size_t>(i) * widths.base_bits, widths.base_bits));
  }
  if (!patch_exceptions(packed + widths.base_bytes(entries), widths, entries, numbers))
    return false;
  return std::all_of(numbers, numbers + entries, [&](std::uint32_t n) { return n <= largest; });
}

void store_codes(const BlockRequest& request, const std::uint32_t* codes, int entries,
                 std::int64_t first) {
  auto* integers = static_cast<std::int32_t*>(request.values) + first;
  auto* floats = static_cast<float*>(request.values) + first;
  for (int i = 0; i < entries; ++i) {
    const auto number = static_cast<std::int32_t>(codes[i] + request.offset);
    switch (request.output) {
      case CodeOutput::kNone:
        return;
      case CodeOutput::kI32:
        integers[i] = number;
        break;
      case CodeOutput::kF32:
        floats[i] = static_cast<float>(number);
        break;
      case CodeOutput::kF32Multiplied:
        floats[i] = static_cast<float>(number) * request.factor;
        break;
      case CodeOutput::kF32Divided:
        floats[i] = static_cast<float>(number) / request.factor;
        break;
    }
  }
}

}  // namespace

BlockResult unpack_blocks_scalar(const BlockRequest& request) {
  const bool has_codes = request.output != CodeOutput::kNone;
  const std::uint8_t* data = request.data;
  const std::uint8_t* word = request.words;
  std::uint64_t next_index = 0;
  std::uint32_t numbers[kBlockEntries];
  for (std::int64_t first = 0; first < request.nnz; first += kBlockEntries) {
    const int entries =
        static_cast<int>(std::min<std::int64_t>(kBlockEntries, request.nnz - first));
    const auto gaps = StreamWidths::from_word(load<std::uint16_t>(word));
    word += kWordBytes;
    StreamWidths codes;
    if (has_codes) {
      codes = StreamWidths::from_word(load<std::uint16_t>(word));
      word += kWordBytes;
    }
    if (!gaps.is_valid(entries) || !codes.is_valid(entries)) return {BlockStatus::kBadBlock, data};
    const std::size_t gap_bytes = gaps.bytes(entries);
    const std::size_t bytes = gap_bytes + codes.bytes(entries);
    if (bytes > static_cast<std::size_t>(request.end - data))
      return {BlockStatus::kTruncated, data};
    if (!unpack_stream(data, gaps, entries, kLargest, numbers))
      return {BlockStatus::kBadBlock, data};
    for (int i = 0; i < entries; ++i) {
      next_index += numbers[i];
      if (next_index >= request.n_cols) return {BlockStatus::kBadIndex, data};
      request.indices[first + i] = static_cast<std::int32_t>(next_index++);
    }
    if (has_codes) {
      if (!unpack_stream(data + gap_bytes, codes, entries, kLargest - request.offset, numbers)) {
        return {BlockStatus::kBadBlock, data};
      }
      store_codes(request, numbers, entries, first);
    }
    data += bytes;
  }
  return {BlockStatus::kDone, data};
}

}  // namespace cellfeed::format::shard::record
