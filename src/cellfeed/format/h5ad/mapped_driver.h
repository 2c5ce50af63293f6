// HDF5 on a memory map: files that it opens so take no descriptor of their own.
#pragma once

#include <cstddef>
#include <span>
#include <string>

#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {

// The file whose bytes these are, for reading; no handle where HDF5 refuses it (take_hdf5_message
// says why). What else the file names, such as by an external link, is not opened. REQUIRES: a
// Hdf5Session. Lifetime: the bytes outlive the handle, and those of all objects in the file.
Handle open_mapped(const std::string& path, std::span<const std::byte> bytes);

}  // namespace cellfeed::format::h5ad
