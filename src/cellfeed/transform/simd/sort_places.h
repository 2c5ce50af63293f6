// Puts places in the order of their values; the best instruction set of the machine is chosen at
// run time (Highway). Thread-safe: each call touches its places only; scratch memory is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::transform {

// More have no room in a key of 32 bits beside enough of their values.
inline constexpr std::size_t kMostKeyPlaces = std::size_t{1} << 14;

// By falling value, equal ones by place.
struct ComesFirst {
  const float* values = nullptr;
  bool operator()(std::uint32_t a, std::uint32_t b) const {
    return values[a] != values[b] ? values[a] > values[b] : a < b;
  }
};

// Where the largest value is, then the next one, and so on; equal ones in the order of their
// places. Sorted are keys of a place and as many bits of its value, from the highest one on in
// which values differ, as there is room for; keys that are alike so are compared by their values.
// REQUIRES: values are finite and not negative, at most kMostKeyPlaces, of one size with places.
void sort_places(std::span<const float> values, std::span<std::uint32_t> places);

}  // namespace cellfeed::transform
