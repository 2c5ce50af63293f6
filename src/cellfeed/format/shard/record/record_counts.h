// Recognises float32 values that are counts. Thread-safe: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::format::shard::record {

struct CountedValues {
  bool all = true;             // every value is a whole number from 0 to 2^31 - 1, and not -0.0
  std::uint32_t smallest = 1;  // or less
};

// codes: room for n, each a count less one (2^32 - 1 for a zero); garbage where not all values are
// counts.
CountedValues count_values(const float* values, std::size_t n, std::uint32_t* codes);

}  // namespace cellfeed::format::shard::record
