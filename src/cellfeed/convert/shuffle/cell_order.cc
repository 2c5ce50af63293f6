#include "cellfeed/convert/shuffle/cell_order.h"

namespace cellfeed::convert {

using sampling::Permutation;
using sampling::Purpose;
using sampling::RandomStream;

CellOrder::CellOrder(std::uint64_t seed, std::int64_t n_cells)
    : permutation_(RandomStream(seed, 0, Purpose::kShuffledCell), 0, n_cells) {
  if (n_cells > Permutation::kExplicitSize) return;
  positions_.resize(static_cast<std::size_t>(n_cells));
  for (std::int64_t position = 0; position < n_cells; ++position)
    positions_[static_cast<std::size_t>(permutation_(position))] =
        static_cast<std::uint16_t>(position);
}

}  // namespace cellfeed::convert
