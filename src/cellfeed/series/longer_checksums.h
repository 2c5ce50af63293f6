// Checksums of a file that was made longer.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/series/placed_file.h"
#include "cellfeed/series/work.h"

namespace cellfeed::series {

// before: bytes that it had; known: checksums of their segments. The last of these gets a new one
// where it grows, so that what the old one was of must be whole: throws kCorruptData. Throws kIo,
// kCancelled.
std::vector<std::uint64_t> longer_checksums(const LongerFile& file, std::int64_t before,
                                            std::span<const std::uint64_t> known, SeriesWork& work);

}  // namespace cellfeed::series
