// Highly variable genes, as scanpy.pp.highly_variable_genes (1.11) finds them for the flavors
// seurat and cell_ranger; seurat_v3.h has the third. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/convert/preprocess/gene_statistics.h"

namespace cellfeed::convert {

// Those among `genes` (joined columns, ascending; their names decide ties between batches),
// ascending. As scanpy: genes whose normalised dispersion equals the last one's are kept too, so
// there may be more than asked for, and fewer where too few have one. Throws kInvalidArgument for a
// batch of one cell, and where cell_ranger's bins coincide.
std::vector<std::int64_t> highly_variable_genes(const std::vector<BatchSums>& batches,
                                                const std::vector<std::int64_t>& genes,
                                                const std::vector<std::string>& names,
                                                HvgFlavor flavor, std::int64_t n_top_genes);

// Throws kInvalidArgument for a batch of one cell.
void require_two_cells(const BatchSums& batch);

}  // namespace cellfeed::convert
