// Whether what is appended to shards is of the kind of values that they hold: whole numbers, as
// counts are, or fractions, as normalised values are. Told by the first rows of each.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/convert/append/shard_base.h"

namespace cellfeed::convert {

// Throws kInvalidArgument naming a source whose values are of the other kind; where that is forced,
// returns what is to be said of it. Nothing is told of shards that hold both, of rows without
// values, and of sources that are not stored by rows.
std::vector<std::string> look_at_value_kinds(const ShardBase& base, const Sources& sources,
                                             bool is_forced);

}  // namespace cellfeed::convert
