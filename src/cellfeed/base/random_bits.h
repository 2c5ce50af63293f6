// Random bits of a key: cheap, a pure function of (key, index). Where keys come from:
// sampling/random.h. Thread-safe: pure.
#pragma once

#include <cstdint>

namespace cellfeed {

// Output number `index` of SplitMix64 seeded with `state`.
inline std::uint64_t splitmix64(std::uint64_t state, std::uint64_t index) {
  std::uint64_t z = state + (index + 1) * 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

// floor(x * range / 2^64): x of 64 random bits scaled to [0, range).
inline std::uint64_t scale_bits(std::uint64_t x, std::uint64_t range) {
  return static_cast<std::uint64_t>((static_cast<unsigned __int128>(x) * range) >> 64);
}

}  // namespace cellfeed
