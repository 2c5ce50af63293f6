// Rows fetched from a WideMatrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/format/parquet/wide_matrix.h"

namespace cellfeed::format::parquet_table {

// Lifetime: matrix and cache outlive the result.
std::unique_ptr<FetchedRows> begin_wide_rows(const WideMatrix& matrix, const GroupCache& cache,
                                             std::span<const std::int64_t> rows,
                                             const ReadContext& context);
ReadPlan plan_wide_rows(const WideMatrix& matrix, std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::parquet_table
