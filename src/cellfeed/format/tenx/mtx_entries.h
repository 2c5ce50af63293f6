// read_entries: lines of a Matrix Market file, of either orientation, as entries of cells x genes.
// Pure functions.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/tenx/mtx_text.h"

namespace cellfeed::format::tenx {

// int32 for integers, as 10x's .h5 files have, and for patterns; float64 for reals.
DType value_dtype(MtxField field);

// Replaces what `entries` held. columns: feature -> column of the store, -1 where it is left out;
// empty where all are kept. path: for errors. Throws kCorruptData naming the line.
void read_entries(const std::string& path, const MtxHeader& header, const MtxLines& lines,
                  std::span<const std::int32_t> columns, EntryParts parts, Entries& entries);

}  // namespace cellfeed::format::tenx
