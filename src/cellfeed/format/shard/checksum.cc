#include "cellfeed/format/shard/checksum.h"

#include <xxhash.h>

// The library's own choice among the vector instructions there are; without it, XXH3 uses those the
// library was compiled for, which on x86-64 are half as fast.
#ifdef CELLFEED_HAS_XXH3_DISPATCH
extern "C" XXH64_hash_t XXH3_64bits_dispatch(const void* input, std::size_t length);
#endif

namespace cellfeed::format::shard {
namespace {

#if defined(CELLFEED_HAS_XXH3_DISPATCH) && defined(__x86_64__)
// The library leaves the upper halves of the vector registers in use. Until they are cleared, SSE
// instructions wait for what they held: a tenth of a batch's processor time on Intel's.
__attribute__((target("avx"))) void clear_upper_halves() { __builtin_ia32_vzeroupper(); }
const bool kHasUpperHalves = __builtin_cpu_supports("avx");
#else
[[maybe_unused]] void clear_upper_halves() {}
[[maybe_unused]] constexpr bool kHasUpperHalves = false;
#endif

}  // namespace

std::uint64_t checksum_bytes(std::span<const std::byte> bytes) {
#ifdef CELLFEED_HAS_XXH3_DISPATCH
  const std::uint64_t checksum = XXH3_64bits_dispatch(bytes.data(), bytes.size());
  if (kHasUpperHalves) clear_upper_halves();
  return checksum;
#else
  return XXH3_64bits(bytes.data(), bytes.size());
#endif
}

}  // namespace cellfeed::format::shard
