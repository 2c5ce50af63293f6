// Superblock: where the HDF5 part of a file begins and where its root group is. HDF5 File Format
// Specification 4.0, II.A.
#pragma once

#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

struct Superblock {
  int version = 0;
  Address root_header = kUndefinedAddress;
  Address extension = kUndefinedAddress;  // an object header; versions 2 and 3 may have one
};

// Finds the superblock, behind a user block if there is one, and gives its sizes to file. Throws
// kCorruptData (empty, no HDF5 file, truncated) or kUnsupported.
Superblock read_superblock(FileBytes& file);

}  // namespace cellfeed::hdf5
