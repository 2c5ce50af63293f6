// Memory straight from the system and straight back, in huge pages where there are any.
// Thread-safe.
#pragma once

#include <cstddef>
#include <memory>

namespace cellfeed {

inline constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

constexpr std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Zeros that begin at a huge page; munmap() gives them back. flags: of mmap, such as MAP_NORESERVE.
// REQUIRES: bytes is a multiple of pages. Throws std::bad_alloc.
void* map_huge_pages(std::size_t bytes, int flags = 0);

struct FreeLargeBytes {
  std::size_t mapped_bytes = 0;  // 0: of the heap
  void operator()(std::byte* data) const;
};
using LargeBytes = std::unique_ptr<std::byte[], FreeLargeBytes>;
// Uninitialised; in huge pages as far as it fills some, else of the heap. Throws std::bad_alloc.
LargeBytes make_large_bytes(std::size_t bytes);

}  // namespace cellfeed
