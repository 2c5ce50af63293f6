// rank_genes: the genes of a row by value, as models that read cells as sentences of genes want
// them.
#pragma once

#include <cstdint>
#include <span>

#include "cellfeed/transform/transform.h"

namespace cellfeed::transform {

// Writes the genes of the row into genes: largest value first, equal values in the row's order, NaN
// last; at most genes.size() of them. Returns how many. A counting sort: one pass for counts below
// 2,048, up to three for 32 bits and six for 64. Reads the row only. Thread-safe.
std::size_t rank_genes(const Row& row, std::span<std::int32_t> genes);

}  // namespace cellfeed::transform
