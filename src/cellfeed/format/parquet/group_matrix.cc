#include "cellfeed/format/parquet/group_matrix.h"

#include <utility>

namespace cellfeed::format::parquet_table {

GroupMatrix::GroupMatrix(const TableFile& file, std::vector<int> leaves, DType dtype,
                         std::int64_t n_cols)
    : file_(file), leaves_(std::move(leaves)), dtype_(dtype), n_cols_(n_cols) {}

}  // namespace cellfeed::format::parquet_table
