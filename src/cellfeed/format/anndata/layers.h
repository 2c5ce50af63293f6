// The matrices of an AnnData file: where they lie, and what their groups say. Thread-safe: pure
// functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

// "csr_matrix" or "csc_matrix", also of groups that anndata 0.5 and 0.6 wrote.
std::string sparse_encoding(const StoredNode& group);
// Rows and columns, as the group of a sparse matrix says. Throws kNoSuchKey or kCorruptData.
std::pair<std::int64_t, std::int64_t> read_matrix_shape(const StoredTree& file,
                                                        const std::string& layer);

// The same of one that has to be CSR: else throws kUnsupported.
std::pair<std::int64_t, std::int64_t> read_csr_shape(const StoredTree& file,
                                                     const std::string& layer);

// Throws kUnsupported, which says what it is, for a file of another program.
void refuse_other_kinds(const StoredTree& file);

// Where OpenOptions::layer may lie, the first place first. REQUIRES: not of obsm.
std::vector<std::string> places_of_layer(const std::string& layer);
// The path in the file of OpenOptions::layer. Throws kNoSuchKey listing the layers there are, or
// what kind of file this is when there is no matrix at all.
std::string find_layer(const StoredTree& file, const std::string& layer);

// Where X, raw/X, layers and obsm lie, as far as they are there; whatever they are.
std::vector<std::string> list_matrix_paths(const StoredTree& file);
// What users call the matrix at a path, and where its genes are described, where it has any.
std::string layer_name(const std::string& path);
std::optional<std::string> var_path(const std::string& path);

}  // namespace cellfeed::format::anndata
