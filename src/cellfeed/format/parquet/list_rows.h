// Rows fetched from a ListMatrix.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/format/parquet/list_matrix.h"

namespace cellfeed::format::parquet_table {

// Lifetime: matrix and cache outlive the result.
std::unique_ptr<FetchedRows> begin_list_rows(const ListMatrix& matrix, const GroupCache& cache,
                                             std::span<const std::int64_t> rows);
ReadPlan plan_list_rows(const ListMatrix& matrix, std::span<const std::int64_t> rows);

}  // namespace cellfeed::format::parquet_table
