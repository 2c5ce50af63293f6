#include "cellfeed/format/anndata/dense_matrix.h"

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/dense_rows.h"

namespace cellfeed::format::anndata {

DenseMatrix::DenseMatrix(const StoredTree& file, const std::string& layer)
    : file_(file),
      values_(file.open_array(layer, {.rank = 2, .key = 0, .is_of_rows = true})),
      n_cols_(values_->shape()[1]),
      decoder_(file.path(), layer, n_cols(), values_->number()) {}

DenseMatrix::DenseMatrix(const StoredTree& file, const std::string& layer, const StoredField& field)
    : file_(file),
      values_(file.open_field(layer)),
      first_col_(field.first_col),
      n_cols_(field.n_cols),
      decoder_(file.path(), layer, n_cols(), values_->number()) {}

void DenseMatrix::describe(StoreInfo& info) const {
  info.nnz = -1;
  info.is_dense = true;
  if (!values_->is_mapped()) info.rows_per_chunk = values_->chunk_shape()[0];
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
  const std::int64_t begin = row * values_->shape()[1] + first_col_;
  return {begin, begin + n_cols()};
}

}  // namespace cellfeed::format::anndata
