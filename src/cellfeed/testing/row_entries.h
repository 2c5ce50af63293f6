// The entries of a row, for tests that compare rows wherever they lie.
#pragma once

#include <cstdint>
#include <map>
#include <variant>
#include <vector>

#include "cellfeed/matrix/csr.h"

namespace cellfeed::testing {

using RowEntries = std::map<std::int32_t, float>;  // column -> value

// REQUIRES: float32 values.
inline RowEntries row_of(const matrix::CsrBlock& block, std::int64_t row) {
  RowEntries entries;
  const auto& values = std::get<matrix::Buffer<float>>(block.values);
  for (std::int64_t k = block.indptr[row]; k < block.indptr[row + 1]; ++k)
    entries[block.indices[k]] = values[k];
  return entries;
}

// Of blocks one below the other.
inline RowEntries row_of(const std::vector<matrix::CsrBlock>& blocks, std::int64_t row) {
  for (const auto& block : blocks) {
    if (row < block.n_rows) return row_of(block, row);
    row -= block.n_rows;
  }
  return {};
}

}  // namespace cellfeed::testing
