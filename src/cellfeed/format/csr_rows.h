// Rows fetched from a CsrMatrix: pointers into the memory map, or inflated chunks held while the
// rows are needed.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/csr_matrix.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

// Its tasks inflate one chunk each, unless the cache has it. Lifetime: matrix and cache outlive the
// result.
std::unique_ptr<FetchedRows> begin_csr_rows(const CsrMatrix& matrix,
                                            const chunked::ChunkCache& cache,
                                            std::span<const std::int64_t> rows);

ReadPlan plan_csr_rows(const CsrMatrix& matrix, const chunked::ChunkCache& cache,
                       std::span<const std::int64_t> rows);

}  // namespace cellfeed::format
