// Memory straight from the system and straight back, in huge pages where there are any.
// Thread-safe.
#pragma once

#include <cstddef>

namespace cellfeed {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Zeros that begin at a huge page; munmap() gives them back. flags: of mmap, such as MAP_NORESERVE.
// REQUIRES: bytes is a multiple of pages. Throws std::bad_alloc.
void* map_huge_pages(std::size_t bytes, int flags = 0);

}  // namespace cellfeed
