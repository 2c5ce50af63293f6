// Attribute message: a named value of an object. HDF5 File Format Specification 4.0, IV.A.2.m.
// Thread-safe: a value. Lifetime: the FileBytes outlives it.
#pragma once

#include <string>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/dataspace_message.h"
#include "cellfeed/hdf5/datatype_message.h"
#include "cellfeed/hdf5/shared_message.h"

namespace cellfeed::hdf5 {

struct Attribute {
  std::string name;
  Datatype type;
  Dataspace space;
  Bytes value;  // n_elements of type.size bytes each
};

// message: its bytes. Throws kCorruptData or kUnsupported.
Attribute read_attribute_message(Cursor message, const SharedMessages& shared);

}  // namespace cellfeed::hdf5
