// Packs streams of numbers, block by block, in the fewest bytes.
// Thread-safe: no state is shared.
#pragma once

#include <cstdint>
#include <span>

#include "cellfeed/format/shard/record/record_layout.h"

namespace cellfeed::format::shard::record {

// No block of one stream takes more bytes.
inline constexpr std::size_t kMaxStreamBytes = kBlockEntries * kMaxNumberBits / 8;
// pack_stream may write so many bytes behind the block.
inline constexpr std::size_t kPackRoomBytes = 64;

struct StreamPlan {
  StreamWidths widths;
  std::uint64_t has_high[2] = {0, 0};  // bit i: number i is an exception
};

// The widths with the fewest bytes (the largest base among equals) for numbers[0..entries), each <
// 2^31. REQUIRES: numbers has kBlockEntries elements, zero from `entries` on.
StreamPlan plan_stream(const std::uint32_t* numbers, int entries);

// Writes the block and returns its end.
std::uint8_t* pack_stream(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                          std::uint8_t* to);

// All blocks of a row: the widths at `words`, the blocks themselves at `blocks`. codes: one an
// index, or null for gaps alone. Returns the end of the last block, or null when indices are
// negative or do not rise. May write kPackRoomBytes behind the last block.
std::uint8_t* pack_blocks(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                          std::uint8_t* words, std::uint8_t* blocks);

// The same without vectors: the reference.
StreamPlan plan_stream_scalar(const std::uint32_t* numbers, int entries);
std::uint8_t* pack_stream_scalar(const std::uint32_t* numbers, int entries, const StreamPlan& plan,
                                 std::uint8_t* to);
std::uint8_t* pack_blocks_scalar(std::span<const std::int32_t> indices, const std::uint32_t* codes,
                                 std::uint8_t* words, std::uint8_t* blocks);

}  // namespace cellfeed::format::shard::record
