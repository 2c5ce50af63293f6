// What sources must be like for their cells to go behind those of finished shards, and what is said
// of them. Pure, but that obs of the shards is read where its types change.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/append/shard_base.h"
#include "cellfeed/convert/inputs/input_cells.h"

namespace cellfeed::convert {

// Throws kInvalidArgument where an open collection has other genes than the shards, or in another
// order.
void require_same_axis(const ShardBase& base, const InputCells& input);
// Throws kInvalidArgument where the values were processed otherwise.
void require_same_processing(const ShardBase& base, const Sources& sources);
// Throws kInvalidArgument naming a source with genes that the shards lack.
void refuse_extra_genes(const ShardBase& base, const Sources& sources);

struct MissingGenes {
  std::int64_t n_genes = 0;  // of the source that lacks most
  std::string text;          // empty where none is missing
};
// Throws kNoSuchKey naming a source that has none of them.
MissingGenes missing_genes(const ShardBase& base, const Sources& sources);

// Adds what is to be said of cells that were opened with another layer than the shards hold of
// their sources.
void note_other_layer(const ShardBase& base, const Sources& sources,
                      std::vector<std::string>& warnings);

// Throws kPrecision where numbers that are there do not fit the type that obs of all comes to.
void require_obs_that_fits(const ShardBase& base, const TableUnion& obs);

}  // namespace cellfeed::convert
