// Kernels over one dense row; the best instruction set of the machine is chosen at run time
// (Highway). What is read need not be aligned. Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::format {

// Bit i % 64 of bits[i / 64] says whether any bit of element i is set; bits past n are 0. Returns
// how many are. REQUIRES: width is 1, 2, 4 or 8; room for (n + 63) / 64 words.
std::int64_t mark_entries(const std::byte* data, std::size_t width, std::size_t n,
                          std::uint64_t* bits);

}  // namespace cellfeed::format
