#include "cellfeed/matrix/buffer.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>

namespace cellfeed::matrix {
namespace {

constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// Straight from the system and straight back: malloc keeps large blocks that threads hand to each
// other, several times over, once its threshold for mmap has grown.
void* map_pages(std::size_t bytes) {
  const std::size_t spread = bytes + kHugePageBytes;
  void* mapped =
      ::mmap(nullptr, spread, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapped);
  const std::size_t skip = round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePageBytes) -
                           reinterpret_cast<std::uintptr_t>(begin);
  if (skip > 0) ::munmap(begin, skip);
  if (skip < kHugePageBytes) ::munmap(begin + skip + bytes, kHugePageBytes - skip);
  // Advice only: without huge pages the buffer works the same.
  ::madvise(begin + skip, bytes, MADV_HUGEPAGE);
  return begin + skip;
}

}  // namespace

std::size_t block_bytes(std::size_t bytes) {
  const std::size_t padded = bytes + kPaddingBytes;
  return padded >= kHugePageBytes ? round_up(padded, kHugePageBytes) : bytes;
}

BufferMemory::Block allocate_block(std::size_t bytes, BufferMemory* memory) {
  const std::size_t padded = bytes + kPaddingBytes;
  if (memory != nullptr) return memory->allocate(padded);
  if (padded >= kHugePageBytes) return {map_pages(round_up(padded, kHugePageBytes)), nullptr};
  void* data = std::aligned_alloc(64, round_up(padded, 64));
  if (data == nullptr) throw std::bad_alloc();
  return {data, nullptr};
}

void free_block(const BufferMemory::Block& block, std::size_t bytes,
                BufferMemory* memory) noexcept {
  const std::size_t padded = bytes + kPaddingBytes;
  if (memory != nullptr)
    memory->free(block);
  else if (padded >= kHugePageBytes)
    ::munmap(block.data, round_up(padded, kHugePageBytes));
  else
    std::free(block.data);
}

}  // namespace cellfeed::matrix
