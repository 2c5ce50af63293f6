// CellOrder: which cell of the joined inputs stands where in shuffled shards. A pure function of
// (seed, number of cells), looked up in both directions without a table as long as the cells
// (docs/sampling.md, "Shuffled shards"). Thread-safe: immutable once made.
#pragma once

#include <cstdint>
#include <vector>

#include "cellfeed/sampling/permutation.h"

namespace cellfeed::convert {

class CellOrder {
 public:
  // REQUIRES: n_cells > 0.
  CellOrder(std::uint64_t seed, std::int64_t n_cells);

  std::int64_t cell_at(std::int64_t position) const { return permutation_(position); }
  std::int64_t position_of(std::int64_t cell) const {
    return positions_.empty() ? permutation_.preimage(cell)
                              : positions_[static_cast<std::size_t>(cell)];
  }

 private:
  sampling::Permutation permutation_;
  std::vector<std::uint16_t> positions_;  // where the permutation is a table itself
};

}  // namespace cellfeed::convert
