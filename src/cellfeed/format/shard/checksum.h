// The checksum of everything in a shard directory: XXH3-64 with seed 0.
// Thread-safe, where nothing else is said: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "cellfeed/io/running_checksum.h"

namespace cellfeed::format::shard {

std::uint64_t checksum_bytes(std::span<const std::byte> bytes);

// The same of bytes that come in parts.
using io::RunningChecksum;

}  // namespace cellfeed::format::shard
