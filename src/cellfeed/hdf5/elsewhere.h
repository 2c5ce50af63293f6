// What lies in another file, by external links, external storage and virtual datasets, is not read.
#pragma once

#include <string>

#include "cellfeed/hdf5/cursor.h"

namespace cellfeed::hdf5 {

// Throws kUnsupported: nothing outside of a file is read. name: the path of the object. how: "is a
// link to".
[[noreturn]] void throw_elsewhere(const std::string& path, const std::string& name, const char* how,
                                  const std::string& where);

// The name of the first file that an External Data Files message lists: HDF5 File Format
// Specification 4.0, IV.A.2.h. Pure. message: its bytes. Throws kCorruptData.
std::string read_external_name(Cursor message);

}  // namespace cellfeed::hdf5
