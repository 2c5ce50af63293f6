// What is carried to an HDF5 file as it is, and from where.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "cellfeed/hdf5/file.h"
#include "cellfeed/zarr/hierarchy.h"

namespace cellfeed::format::h5ad {

// Never null. Lifetime: it outlives who has it.
using CarriedFrom = std::variant<const hdf5::File*, const cellfeed::zarr::Hierarchy*>;

struct CarriedGroups {
  std::string root{};                // where in the file the paths begin; empty: at its root
  std::vector<std::string> paths;    // "uns", "varm"
  std::vector<std::string> skipped;  // but what lies at these: "uns/log1p"
};

}  // namespace cellfeed::format::h5ad
