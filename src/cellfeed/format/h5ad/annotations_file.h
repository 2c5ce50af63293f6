// Groups of an .h5ad file that are carried to another one as they are: uns and varm. Thread-safe.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/hdf5/file.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::format::h5ad {

struct CarriedGroups {
  std::vector<std::string> paths;    // "uns", "varm"
  std::vector<std::string> skipped;  // but what lies at these: "uns/log1p"
};

// Writes them to an HDF5 file of their own, replacing. Returns what was left out, and why, as
// ObjectCopy. The bytes depend on what is copied alone. Throws what reading and writing throw.
std::vector<std::string> write_annotations(const io::FileTarget& target, const hdf5::File& from,
                                           const CarriedGroups& groups);

}  // namespace cellfeed::format::h5ad
