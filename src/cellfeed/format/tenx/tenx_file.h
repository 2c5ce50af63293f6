// What a 10x .h5 file holds: matrices of features x barcodes by columns, which are cells by rows.
// Cell Ranger 2 has a group for each genome; Cell Ranger 3 and later, and Space Ranger, one group
// "matrix" whose features say their type and genome. Thread-safe: pure functions.
#pragma once

#include <cstdint>
#include <string>

#include "cellfeed/format/h5_file.h"
#include "cellfeed/hdf5/file.h"

namespace cellfeed::format::tenx {

struct TenxMatrix {
  std::string group;  // "matrix", or the name of a genome
  bool has_features = false;
  std::int64_t n_features = 0;
  std::int64_t n_cells = 0;
};

// Whether it is such a file, and no AnnData.
bool is_tenx(const hdf5::File& file);

// genome: of a file of Cell Ranger 2; empty where it has one only. Throws kInvalidArgument listing
// the genomes there are.
TenxMatrix find_matrix(const H5File& file, const std::string& genome);

// A dataset of one dimension that has to be there. Throws kCorruptData, also where its length is
// another.
hdf5::Dataset find_list(const hdf5::File& file, const std::string& name, std::int64_t length);

}  // namespace cellfeed::format::tenx
