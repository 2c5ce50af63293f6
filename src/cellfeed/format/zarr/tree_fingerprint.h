// tree_fingerprint: a number that follows from what a zarr store holds, wherever it lies.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::zarr {

// Of the metadata of all in the groups, and of up to 16 chunks of each array, from the first to the
// last: all bytes of small ones, 64 KiB at both ends of large ones. Chunks are looked for, and
// read, many at once.
std::uint64_t tree_fingerprint(const cellfeed::zarr::Hierarchy& store,
                               std::span<const std::string> groups);

}  // namespace cellfeed::format::zarr
