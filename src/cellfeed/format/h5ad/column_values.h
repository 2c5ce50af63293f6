// Plain one-dimensional HDF5 datasets as Arrow arrays: numbers, booleans, strings.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>

#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::h5ad {

// Elements [begin, end) of the dataset. float16 widens to float32. Throws kUnsupported naming the
// dataset when its type has no Arrow counterpart.
std::shared_ptr<arrow::Array> read_values(const hdf5::Dataset& dataset, std::int64_t begin,
                                          std::int64_t end);

// Throws kInternal with Arrow's account when status is an error.
void check_arrow(const arrow::Status& status);

}  // namespace cellfeed::format::h5ad
