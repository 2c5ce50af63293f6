// open_cached_rows: the rows of a shard directory in place of those of the dataset it was made of,
// which has all else: names, obs, genes, fingerprint.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/entry_store.h"

namespace cellfeed::convert {

// dir: of all cells, in their order. Its shards are read as one store. Errors about its files name
// the dataset, and say that the folder may be deleted. Throws what opening shards throws.
std::unique_ptr<format::RowStore> open_cached_rows(std::unique_ptr<format::EntryStore> entries,
                                                   const std::string& dir,
                                                   const format::OpenOptions& options);

}  // namespace cellfeed::convert
