// Highly variable genes of flavor seurat_v3, as scanpy.pp.highly_variable_genes (1.11) finds them
// in counts (Stuart et al., 2019). Pure.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "cellfeed/convert/preprocess/gene_statistics.h"

namespace cellfeed::convert {

// A gene's variance as its mean lets expect it, in a batch of cells.
struct ExpectedVariances {
  std::vector<double> means;       // a gene of those that are ranked each
  std::vector<double> deviations;  // square roots
  bool varies = false;             // some gene does
};

// Of each batch; genes: joined columns. Throws kInvalidArgument for a batch of one cell, and where
// means are too few for a curve.
std::vector<ExpectedVariances> expected_variances(const std::vector<BatchSums>& batches,
                                                  const std::vector<std::int64_t>& genes);

// What larger counts of a gene in a batch count as; joined genes, infinite for those not in
// `genes`.
CountLimits count_limits(const std::vector<BatchSums>& batches,
                         const std::vector<ExpectedVariances>& expected,
                         const std::vector<std::int64_t>& genes);

// Those among `genes`, ascending: n_top_genes of them, or all; none where no gene varies. limited:
// sums of counts within count_limits. As scanpy: by the median of a gene's ranks in the batches
// where it is among the n_top_genes, then by the number of these; genes that are equal come in
// their order.
std::vector<std::int64_t> seurat_v3_genes(const std::vector<BatchSums>& limited,
                                          const std::vector<ExpectedVariances>& expected,
                                          const std::vector<std::int64_t>& genes,
                                          std::int64_t n_top_genes);

}  // namespace cellfeed::convert
