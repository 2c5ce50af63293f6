// The checksum of everything in a shard directory: XXH3-64 with seed 0.
// Thread-safe: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::format::shard {

std::uint64_t checksum_bytes(std::span<const std::byte> bytes);

}  // namespace cellfeed::format::shard
