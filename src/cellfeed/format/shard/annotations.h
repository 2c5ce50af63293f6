// annotations.h5: uns and varm of the one source of a shard directory, as that has them; a row of
// varm belongs to the gene of that original position. Thread-safe: pure functions.
#pragma once

#include <string>

#include "cellfeed/format/shard/file_names.h"
#include "cellfeed/format/shard/manifest.h"
#include "cellfeed/io/directory.h"

namespace cellfeed::format::shard {

class ShardDirectory;

// Of the file as it lies in the directory.
FileEntry describe_annotations(const io::Directory& dir, Generation generation);
// Its path, empty where there is none. Reads it whole: throws kCorruptData where it is not the file
// that the manifest describes, kNotFound where it is missing.
std::string checked_annotations(const ShardDirectory& directory);

}  // namespace cellfeed::format::shard
