// Looks at some cells before an epoch begins: a dtype that cannot hold the data, and transforms of
// counts where there are none, are errors of the loader, not of its thousandth batch.
#pragma once

#include <cstdint>
#include <span>

#include "cellfeed/base/dtype.h"
#include "cellfeed/collection/collection.h"
#include "cellfeed/transform/fusion.h"

namespace cellfeed::loader {

// Whether some file holds what the dtype may not: fractions as integers, float64 as float32 without
// rounding, whole numbers of a wider type.
bool is_in_question(const collection::Collection& collection, DType dtype, Casting casting);
// Decodes those of the rows that lie in such files. Throws kPrecision as a batch of them would.
void check_first_values(const collection::Collection& collection,
                        std::span<const std::int64_t> rows, DType dtype, Casting casting);

// Whether the transforms are for counts, so that the rows must be looked at.
bool expects_counts(const collection::Collection& collection,
                    const transform::Transforms& transforms);
// Throws kInvalidArgument, naming matrices of the file that hold counts, where values are
// normalised or logarithms already as far as the rows tell.
void require_counts(const collection::Collection& collection, std::span<const std::int64_t> rows,
                    const transform::Transforms& transforms);

}  // namespace cellfeed::loader
