// Symbol table: the links of an old group, in a version 1 B-tree over symbol table nodes, with
// names in a local heap. HDF5 File Format Specification 4.0, III.A.1, III.B and III.C.
// Thread-safe: pure functions.
#pragma once

#include <span>
#include <vector>

#include "cellfeed/hdf5/link_message.h"

namespace cellfeed::hdf5 {

// message: the Symbol Table message's bytes. Throws kCorruptData.
std::vector<Link> read_symbol_table(Cursor message);
// Has what read_symbol_table needs of many messages read together, where their trees have one
// level. A hint: what is damaged is found when it is read.
void fetch_symbol_tables(const FileBytes& file, std::span<const Cursor> messages);

}  // namespace cellfeed::hdf5
