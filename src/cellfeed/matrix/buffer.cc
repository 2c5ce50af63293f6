#include "cellfeed/matrix/buffer.h"

#include <sys/mman.h>

#include <cstdlib>
#include <new>

namespace cellfeed::matrix {
namespace {
constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
}

void* allocate_aligned(std::size_t bytes) {
  const std::size_t padded = bytes + kPaddingBytes;
  const std::size_t alignment = padded >= kHugePageBytes ? kHugePageBytes : 64;
  const std::size_t rounded = (padded + alignment - 1) / alignment * alignment;
  void* data = std::aligned_alloc(alignment, rounded);
  if (data == nullptr) throw std::bad_alloc();
  // Advice only: without huge pages the buffer works the same.
  if (alignment == kHugePageBytes) madvise(data, rounded, MADV_HUGEPAGE);
  return data;
}

void free_aligned(void* data, std::size_t) noexcept { std::free(data); }

}  // namespace cellfeed::matrix
