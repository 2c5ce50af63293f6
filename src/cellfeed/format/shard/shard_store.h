// The shards of a directory as RowStores, one each; they share the manifest and the gene axis.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::format::shard {

// True when the path is a directory with a manifest or a journal of ours.
bool is_shard_dir(const std::string& dir);

// O(shards), not O(cells): headers are checked against the manifest, rows when they are read.
// Throws kNotFound (no manifest, a missing file), kCorruptData (damaged, swapped, names outside the
// directory).
std::vector<std::unique_ptr<RowStore>> open_shards(const std::string& dir,
                                                   const OpenOptions& options);

}  // namespace cellfeed::format::shard
