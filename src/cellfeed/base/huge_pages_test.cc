// Large memory: where it comes from, and that all of it is there.
#include "cellfeed/base/huge_pages.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>

namespace cellfeed {
namespace {

TEST(LargeBytes, BeginAtAHugePageWhereTheyFillOne) {
  for (const std::size_t bytes : {std::size_t{1}, kHugePageBytes - 4096, kHugePageBytes - 1,
                                  kHugePageBytes, 2 * kHugePageBytes + 12'345}) {
    const LargeBytes memory = make_large_bytes(bytes);
    std::memset(memory.get(), 0x5A, bytes);
    EXPECT_EQ(memory[bytes - 1], std::byte{0x5A});
    const bool is_large = bytes > kHugePageBytes - 4096;
    EXPECT_EQ(memory.get_deleter().mapped_bytes >= bytes, is_large) << bytes;
    const std::uintptr_t past = reinterpret_cast<std::uintptr_t>(memory.get()) % kHugePageBytes;
    EXPECT_EQ(is_large ? past : 0, 0U);
  }
}

}  // namespace
}  // namespace cellfeed
