// The matrices of an AnnData file, as list_matrices tells them. Thread-safe: a pure function.
#pragma once

#include <vector>

#include "cellfeed/format/matrix_list.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

std::vector<MatrixDescription> list_matrices(const StoredTree& file);

}  // namespace cellfeed::format::anndata
