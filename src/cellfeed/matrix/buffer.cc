#include "cellfeed/matrix/buffer.h"

#include <sys/mman.h>

#include <cstddef>
#include <cstdlib>
#include <new>

#include "cellfeed/base/huge_pages.h"

namespace cellfeed::matrix {

std::size_t block_bytes(std::size_t bytes) {
  const std::size_t padded = bytes + kPaddingBytes;
  return padded >= kHugePageBytes ? round_up(padded, kHugePageBytes) : bytes;
}

std::size_t usable_bytes(std::size_t bytes) {
  const std::size_t taken = block_bytes(bytes);
  return taken > bytes ? taken - kPaddingBytes : bytes;
}

BufferMemory::Block allocate_block(std::size_t bytes, BufferMemory* memory) {
  const std::size_t padded = bytes + kPaddingBytes;
  if (memory != nullptr) return memory->allocate(padded);
  // malloc keeps large blocks that threads hand to each other, several times over, once its
  // threshold for mmap has grown.
  if (padded >= kHugePageBytes) return {map_huge_pages(round_up(padded, kHugePageBytes)), nullptr};
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
