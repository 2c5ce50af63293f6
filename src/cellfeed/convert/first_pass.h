// What the passes over all cells found before shards are written, as a file for the processes that
// write them: first_pass.cbor beside the journal, until the conversion is finished. A checksum of
// the rest comes first.
#pragma once

#include <cstdint>
#include <vector>

#include "cellfeed/convert/open_conversion.h"
#include "cellfeed/convert/preprocess/preprocessing.h"

namespace cellfeed::convert {

struct FirstPass {
  std::vector<std::int64_t> gene_order;  // as OpenConversion::gene_order()
  KeptCells kept;                        // of preprocess
};

// Replaces it.
void write_first_pass(const ShardTarget& target, const FirstPass& found);
// Throws kNotFound, and kCorruptData where it is not as it was written.
FirstPass read_first_pass(const ShardTarget& target);

}  // namespace cellfeed::convert
