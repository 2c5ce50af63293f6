// Packing without vectors: what other instruction sets are compared with.
#include <algorithm>
#include <cstring>

#include "cellfeed/format/shard/record/record_bits.h"
#include "cellfeed/format/shard/record/record_pack.h"

namespace cellfeed::format::shard::record {

StreamPlan plan_stream_scalar(const std::uint32_t* numbers, int entries) {
  StreamPlan plan;
  const std::uint32_t largest = *std::max_element(numbers, numbers + kBlockEntries);
  plan.widths = choose_widths(largest, entries, 0, [&](std::uint32_t limit) {
    return static_cast<int>(std::count_if(numbers, numbers + kBlockEntries,
                                          [&](std::uint32_t n) { return n > limit; }));
  });
  for (int i = 0; i < kBlockEntries && plan.widths.exceptions > 0; ++i) {
    plan.has_high[i / 64] |= std::uint64_t{numbers[i] >> plan.widths.base_bits != 0} << (i % 64);
  }
  return plan;
}

std::uint8_t* pack_stream_scalar(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                                 std::uint8_t* to) {
  if (plan.widths.base_bits > 0) pack_base(numbers, entries, plan.widths.base_bits, to);
  to += plan.widths.base_bytes(entries);
  if (plan.widths.exceptions > 0) pack_exceptions(numbers, plan, to);
  return to + plan.widths.exception_bytes();
}

std::uint8_t* pack_blocks_scalar(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                                 std::uint8_t* words, std::uint8_t* blocks) {
  std::uint32_t gaps[kBlockEntries], last_codes[kBlockEntries];
  std::int32_t previous = -1, signs = 0;
  const auto put = [&](const std::uint32_t* numbers, std::size_t entries) {
    const StreamPlan plan = plan_stream_scalar(numbers, static_cast<int>(entries));
    const std::uint16_t word = plan.widths.word();
    std::memcpy(words, &word, sizeof word);
    words += sizeof word;
    blocks = pack_stream_scalar(numbers, static_cast<int>(entries), plan, blocks);
  };
  for (std::size_t first = 0; first < indices.size(); first += kBlockEntries) {
    const std::size_t n = std::min<std::size_t>(kBlockEntries, indices.size() - first);
    for (std::size_t i = 0; i < n; previous = indices[first + i++]) {
      const std::int32_t index = indices[first + i];
      gaps[i] = static_cast<std::uint32_t>(index) - static_cast<std::uint32_t>(previous) - 1;
      signs |= index | static_cast<std::int32_t>(gaps[i]);
    }
    if (signs < 0) return nullptr;
    std::fill(gaps + n, gaps + kBlockEntries, 0);
    put(gaps, n);
    if (codes != nullptr) put(padded(codes + first, n, last_codes), n);
  }
  return blocks;
}

}  // namespace cellfeed::format::shard::record
