// Sources whose cells a shard directory holds already: a cell that is there twice may be in a
// training set and in its test set at once.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/convert/append/shard_base.h"

namespace cellfeed::convert {

// Told by what the sources hold, whatever their names; of shards that were made of other files, or
// are appended, also by the files behind them. Returns what is to be said. Throws kAlreadyExists
// naming the source, unless that is forced.
std::vector<std::string> look_for_known_sources(const ShardBase& base, const Sources& sources,
                                                bool is_forced);

}  // namespace cellfeed::convert
