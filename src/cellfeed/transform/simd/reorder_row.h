// Puts the entries of one row in the order of other columns; the best instruction set of the
// machine is chosen at run time (Highway). It moves bits, so one serves float and int32, another
// double and int64. Thread-safe: each call touches its row only.
#pragma once

#include <cstddef>
#include <cstdint>

namespace cellfeed::transform {

// Moves the entry of column indices[i] to column map[indices[i]], or to column indices[i] where map
// is null; drops it where that is -1. In place, and increasing afterwards. Returns how many are
// left; what was behind them up to n is overwritten, nothing past n is touched. REQUIRES: columns
// in [-1, n_cols), of which none but -1 is there twice; values holds n elements of value_bytes
// (4 or 8).
std::size_t reorder_row(std::int32_t* indices, void* values, std::size_t value_bytes, std::size_t n,
                        const std::int32_t* map, std::size_t n_cols);
// The same for a map that drops nothing, in half its bytes.
std::size_t reorder_row(std::int32_t* indices, void* values, std::size_t value_bytes, std::size_t n,
                        const std::uint16_t* map, std::size_t n_cols);

}  // namespace cellfeed::transform
