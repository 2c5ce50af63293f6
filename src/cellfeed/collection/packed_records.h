// The packed records of consecutive cells, as their files hold them, for decoding elsewhere.
// Thread-safe.
#pragma once

#include <cstdint>
#include <vector>

#include "cellfeed/collection/collection.h"

namespace cellfeed::collection {

struct PackedPart {
  std::int64_t begin = 0;  // its first cell in the collection
  format::PackedRecords records;
};

// Of cells [begin, end), in order, a part for each file that has some of them. Their columns are
// those of the collection. Throws kOutOfRange; kUnsupported where rows are not stored as records,
// where cells were chosen, and where the columns of a file are not those of the collection.
std::vector<PackedPart> packed_records(const Collection& cells, std::int64_t begin,
                                       std::int64_t end);

}  // namespace cellfeed::collection
