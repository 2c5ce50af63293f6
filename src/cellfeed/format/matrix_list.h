// list_matrices: which matrices an AnnData file has and how they are stored, readable here or
// not. Pure but for reading the file's metadata.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace cellfeed::format {

struct MatrixDescription {
  std::string name;      // "X", "raw/X", "layers/counts", "obsm/X_pca"
  std::string encoding;  // "csr", "csc", "dense", "csr of anndata 0.6", or what the file calls it
  std::string value_dtype;
  std::vector<std::int64_t> shape;
  std::int64_t nnz = -1;                  // stored values of a sparse one; -1 of others
  std::vector<std::int64_t> chunk_shape;  // of the values; empty where they are not in chunks
  std::string filters;                    // "none", "shuffle+gzip"
  std::string damage;                     // why no more is known; empty where all is
};

// X, raw/X, layers and obsm, in this order. Empty for files and folders of other formats. modality,
// Throws what opening the file throws.
std::vector<MatrixDescription> list_matrices(const std::string& path, const std::string& modality);

}  // namespace cellfeed::format
