// External Data Files message: a dataset whose elements lie in other files. HDF5 File Format
// Specification 4.0, IV.A.2.h. Pure but for opening those files.
#pragma once

#include <cstdint>
#include <string>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/external_files.h"
#include "cellfeed/hdf5/layout_message.h"

namespace cellfeed::hdf5 {

// message: its bytes. name: the dataset's path, for errors. n_bytes: of all elements. Throws
// kUnsupported naming the file where files is null; what files.open throws; kCorruptData where a
// part is not whole inside its file, or the parts hold fewer bytes.
ExternalLayout read_external_storage(Cursor message, const ExternalFiles* files,
                                     const std::string& name, std::uint64_t n_bytes);

// Refuses what lies elsewhere, saying how it could be allowed. how: "is a link to".
[[noreturn]] void throw_elsewhere(const std::string& path, const std::string& name, const char* how,
                                  const std::string& where);

}  // namespace cellfeed::hdf5
