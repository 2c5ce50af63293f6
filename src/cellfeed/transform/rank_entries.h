// Genes of a row in the order of their values: packed with the value into one number each, so that
// sorting moves one word. Thread-safe: pure.
#pragma once

#include <bit>
#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Smaller comes first: the larger value, of equal values the smaller index. REQUIRES: value is
// not negative and finite, whose bits are ordered as it is.
inline std::uint64_t rank_entry(float value, std::uint32_t index) {
  return std::uint64_t{~std::bit_cast<std::uint32_t>(value)} << 32 | index;
}
inline float value_of_entry(std::uint64_t entry) {
  return std::bit_cast<float>(~static_cast<std::uint32_t>(entry >> 32));
}
inline std::uint32_t index_of_entry(std::uint64_t entry) {
  return static_cast<std::uint32_t>(entry);
}

// Sorts them. REQUIRES: no two are equal, and indices ascend.
void sort_entries(std::span<std::uint64_t> entries);

}  // namespace cellfeed::transform
