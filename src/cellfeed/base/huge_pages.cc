#include "cellfeed/base/huge_pages.h"

#include <sys/mman.h>

#include <cstdint>
#include <new>

namespace cellfeed {
namespace {

constexpr std::size_t kSmallPageBytes = 4096;

}  // namespace

void* map_huge_pages(std::size_t bytes, int flags) {
  void* mapped = ::mmap(nullptr, bytes + kHugePageBytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* begin = static_cast<std::byte*>(mapped);
  const auto address = reinterpret_cast<std::uintptr_t>(begin);
  const std::size_t skip = round_up(address, kHugePageBytes) - address;
  if (skip > 0) ::munmap(begin, skip);
  if (skip < kHugePageBytes) ::munmap(begin + skip + bytes, kHugePageBytes - skip);
  // Advice only: without huge pages the memory is the same.
  ::madvise(begin + skip, bytes, MADV_HUGEPAGE);
  return begin + skip;
}

void FreeLargeBytes::operator()(std::byte* data) const {
  if (mapped_bytes > 0)
    ::munmap(data, mapped_bytes);
  else
    delete[] data;
}

LargeBytes make_large_bytes(std::size_t bytes) {
  const std::size_t mapped = round_up(bytes, kSmallPageBytes);
  if (mapped < kHugePageBytes) return LargeBytes(new std::byte[bytes]);
  return {static_cast<std::byte*>(map_huge_pages(mapped)), FreeLargeBytes{mapped}};
}

}  // namespace cellfeed
