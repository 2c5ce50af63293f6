// An object of a bucket or server, of which the blocks that are read are kept in a file.
// Thread-safe.
#pragma once

#include <memory>

#include "cellfeed/cloud/cache/block_cache.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::cloud {

// threads: that share the local reads of one call.
std::unique_ptr<io::ByteSource> make_block_source(std::shared_ptr<BlockCache> cache, int threads);

}  // namespace cellfeed::cloud
