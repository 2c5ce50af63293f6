// Puts places in the order of their values; the best instruction set of the machine is chosen at
// run time (Highway). Thread-safe: each call touches its places only; scratch memory is per thread.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Up to here what a key of 32 bits has beside a place tells most values apart.
inline constexpr std::size_t kMostKeyPlaces = std::size_t{1} << 14;

// Where the largest value is, then the next one, and so on, by as many bits of the values, from the
// highest one on in which they differ, as a key has room for beside the place; values that have the
// same stand in the order of their places. True where these are all bits in which values differ.
// REQUIRES: values are finite and not negative, at most kMostKeyPlaces, of one size with places.
bool sort_places(std::span<const float> values, std::span<std::uint32_t> places);

}  // namespace cellfeed::transform
