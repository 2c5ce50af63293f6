// The links of a group, wherever they are kept: in its header, in dense storage (HDF5 File Format
// Specification 4.0, IV.A.2.c), or in a symbol table (III.A.1, III.B, IV.A.2.r).
// Thread-safe: a pure function.
#pragma once

#include <span>
#include <vector>

#include "cellfeed/hdf5/link_message.h"
#include "cellfeed/hdf5/object_header.h"

namespace cellfeed::hdf5 {

// Whether the header is that of a group.
bool is_group(const ObjectHeader& header);
// In ascending order of their names' bytes. Throws kCorruptData, also where two have one name.
// REQUIRES: is_group(header).
std::vector<Link> read_group_links(const FileBytes& file, const ObjectHeader& header);
// Has what read_group_links needs of many groups read together. A hint: what is damaged is found
// when it is read.
void fetch_group_links(const FileBytes& file, std::span<const ObjectHeader* const> headers);

}  // namespace cellfeed::hdf5
