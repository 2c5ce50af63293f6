#include "cellfeed/format/h5ad/dense_matrix.h"

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/dense_rows.h"

namespace cellfeed::format::h5ad {

DenseMatrix::DenseMatrix(const H5File& file, const std::string& layer)
    : file_(file),
      values_(file, layer, 2, 0, file.row_bytes()),
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
  return {row * n_cols(), (row + 1) * n_cols()};
}

}  // namespace cellfeed::format::h5ad
