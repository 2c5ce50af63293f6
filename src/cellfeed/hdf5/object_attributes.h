// The attributes of an object, in its header or in dense storage. HDF5 File Format Specification
// 4.0, IV.A.2.m and IV.A.2.v. Thread-safe: a pure function.
#pragma once

#include <vector>

#include "cellfeed/hdf5/attribute_message.h"
#include "cellfeed/hdf5/object_header.h"
#include "cellfeed/hdf5/shared_message.h"

namespace cellfeed::hdf5 {

// In ascending order of their names' bytes. Throws kCorruptData or kUnsupported.
std::vector<Attribute> read_object_attributes(const FileBytes& file, const ObjectHeader& header,
                                              const SharedMessages& shared);

}  // namespace cellfeed::hdf5
