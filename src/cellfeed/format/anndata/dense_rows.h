// Rows fetched from a DenseMatrix: pointers into the memory map, or what was inflated for them.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/anndata/dense_matrix.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::anndata {

// Its tasks inflate one chunk each, unless the cache has it, and count entries, where that is asked
// for. Lifetime: matrix and cache outlive the result.
std::unique_ptr<FetchedRows> begin_dense_rows(const DenseMatrix& matrix,
                                              const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext& context);

ReadPlan plan_dense_rows(const DenseMatrix& matrix, const chunked::ChunkCache& cache,
                         std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::anndata
