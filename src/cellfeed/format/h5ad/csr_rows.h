// Rows fetched from a CsrMatrix: pointers into the memory map, or inflated chunks held while the
// rows are needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/format/h5ad/chunk_cache.h"
#include "cellfeed/format/h5ad/csr_matrix.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::h5ad {

// Lifetime: matrix outlives the result. Each compressed chunk that is not in the cache is inflated
// once, by `parallel`.
std::unique_ptr<FetchedRows> fetch_csr_rows(const CsrMatrix& matrix, const ChunkCache& cache,
                                            std::span<const std::int64_t> rows,
                                            const ParallelFor& parallel);

// Upper bound of the memory that the result will hold, but for what the cache holds.
std::int64_t plan_csr_fetch_bytes(const CsrMatrix& matrix, const ChunkCache& cache,
                                  std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::h5ad
