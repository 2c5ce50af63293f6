// Packs one block of one stream of numbers in the fewest bytes.
#pragma once

#include <cstdint>

#include "cellfeed/format/shard/record_layout.h"

namespace cellfeed::format::shard::record {

// No block of one stream takes more bytes; pack_stream may write 8 more.
inline constexpr std::size_t kMaxStreamBytes = kBlockEntries * kMaxNumberBits / 8;

// The widths with the fewest bytes for numbers[0..entries), each < 2^31.
StreamWidths choose_widths(const std::uint32_t* numbers, int entries);

// Writes the block and returns its end.
std::uint8_t* pack_stream(const std::uint32_t* numbers, int entries, StreamWidths widths,
                          std::uint8_t* to);

}  // namespace cellfeed::format::shard::record
