// Rows fetched from a FrameMatrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/anndata/frame_matrix.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::anndata {

// Its tasks inflate one chunk of a column each, unless the cache has it. Lifetime: matrix and cache
// outlive the result.
std::unique_ptr<FetchedRows> begin_frame_rows(const FrameMatrix& matrix,
                                              const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext& context);

}  // namespace cellfeed::format::anndata
