// Genes of a row in the order of their values. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Where the largest value is, then the next one, and so on; equal values in their order.
// REQUIRES: values are finite and not negative, of one size with places, at most 2^32.
void rank_places(std::span<const float> values, std::span<std::uint32_t> places);

}  // namespace cellfeed::transform
