#include "cellfeed/format/shard/checksum.h"

#include <xxhash.h>

// The library's own choice among the vector instructions there are; without it, XXH3 uses those the
// library was compiled for, which on x86-64 are half as fast.
#ifdef CELLFEED_HAS_XXH3_DISPATCH
extern "C" XXH64_hash_t XXH3_64bits_dispatch(const void* input, std::size_t length);
#endif

namespace cellfeed::format::shard {

std::uint64_t checksum_bytes(std::span<const std::byte> bytes) {
#ifdef CELLFEED_HAS_XXH3_DISPATCH
  return XXH3_64bits_dispatch(bytes.data(), bytes.size());
#else
  return XXH3_64bits(bytes.data(), bytes.size());
#endif
}

}  // namespace cellfeed::format::shard
