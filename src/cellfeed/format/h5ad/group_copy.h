// Groups that are carried to an HDF5 file as they are, from another one or from a zarr store.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/format/h5ad/carried_groups.h"
#include "cellfeed/format/h5ad/hdf5_api.h"

namespace cellfeed::format::h5ad {

// Returns what was left out, and why: "uns/a: a link to another file". What is there already
// stays. Throws what reading and writing throw. to: of a file that is written, at to_path for
// messages.
std::vector<std::string> copy_groups(const CarriedFrom& from, const CarriedGroups& groups, hid_t to,
                                     const std::string& to_path);

}  // namespace cellfeed::format::h5ad
