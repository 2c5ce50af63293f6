#include "cellfeed/format/h5ad/dense_matrix.h"

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/dense_rows.h"

namespace cellfeed::format::h5ad {

DenseMatrix::DenseMatrix(const H5File& file, const std::string& layer)
    : file_(file),
      values_(file, layer, 2, 0, file.row_bytes()),
      n_cols_(values_.shape()[1]),
      decoder_(file.path(), layer, n_cols(), values_.number()) {}

DenseMatrix::DenseMatrix(const H5File& file, const std::string& layer, const ObsmField& field)
    : file_(file),
      values_(file, layer, field.table, field.number, 0, file.row_bytes()),
      first_col_(static_cast<std::int64_t>(field.offset / field.number.size)),
      n_cols_(static_cast<std::int64_t>(field.n_cols)),
      decoder_(file.path(), layer, n_cols(), values_.number()) {}

void DenseMatrix::describe(StoreInfo& info) const {
  info.nnz = -1;
  info.is_dense = true;
  if (!values_.is_mapped()) info.rows_per_chunk = values_.chunk_shape()[0];
}

std::unique_ptr<FetchedRows> DenseMatrix::begin(const chunked::ChunkCache& cache,
                                                std::span<const std::int64_t> rows,
                                                const ReadContext& context) const {
  return begin_dense_rows(*this, cache, rows, context);
}

ReadPlan DenseMatrix::plan(const chunked::ChunkCache& cache,
                           std::span<const std::int64_t> rows) const {
  return plan_dense_rows(*this, cache, rows);
}

chunked::EntryRange DenseMatrix::row_elements(std::int64_t row) const {
  if (row < 0 || row >= n_rows())
    throw_error(ErrorKind::kOutOfRange, file_.path(), "row out of range: {}, rows {}", row,
                n_rows());
  const std::int64_t begin = row * values_.shape()[1] + first_col_;
  return {begin, begin + n_cols()};
}

}  // namespace cellfeed::format::h5ad
