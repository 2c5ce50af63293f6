// left_out_matrices: what inputs hold beside the matrix that is read of them.
#pragma once

#include <string>
#include <vector>

namespace cellfeed::convert {

// "a.h5ad holds layers/counts, obsm/X_pca too, which are left out", with how many other inputs hold
// more; empty where none does. inputs: files, globs and shard directories. kept: as it is named in
// a file ("X"). modality: as in FileChoice. Reads the metadata of each; throws
// what opening them throws.
std::string left_out_matrices(const std::vector<std::string>& inputs, const std::string& kept,
                              const std::string& modality);

}  // namespace cellfeed::convert
