// A file of groups that are carried to shards as they are: uns and varm. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/format/h5ad/carried_groups.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::h5ad {

// Writes them to an HDF5 file of their own, replacing. Returns what was left out, and why, as
// copy_groups. The bytes depend on what is copied alone. Throws what reading and writing throw.
std::vector<std::string> write_annotations(const io::FileTarget& target, const CarriedFrom& from,
                                           const CarriedGroups& groups);

}  // namespace cellfeed::format::h5ad
