// Genes of a row in the order of their values: packed with the value into one number each, so that
// sorting moves one word. Thread-safe: pure.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Smaller comes first: the larger value. REQUIRES: value is finite and not negative, whose bits are
// ordered as it is.
inline std::uint64_t rank_entry(float value, std::uint32_t index) {
  return std::uint64_t{~std::bit_cast<std::uint32_t>(value)} << 32 | index;
}
inline float value_of_entry(std::uint64_t entry) {
  return std::bit_cast<float>(~static_cast<std::uint32_t>(entry >> 32));
}
inline std::uint32_t index_of_entry(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry);
}

// Largest values first; entries with equal values stay in their order, whatever their indices.
void sort_entries(std::span<std::uint64_t> entries);

}  // namespace cellfeed::transform
