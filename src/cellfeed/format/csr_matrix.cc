// CsrMatrix: opening and checking one CSR group.
#include "cellfeed/format/csr_matrix.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/csr_rows.h"

namespace cellfeed::format {
namespace {

// Of one column all indices are 0, and may have been left out for that.
MissingChunks missing_indices(std::int64_t n_cols) {
  return n_cols == 1 ? MissingChunks::kFilled : MissingChunks::kDamage;
}

}  // namespace

CsrMatrix::CsrMatrix(const StoredTree& file, std::string group, std::int64_t n_rows,
                     std::int64_t n_cols)
    : file_(file),
      layer_(std::move(group)),
      n_rows_(n_rows),
      n_cols_(n_cols),
      data_(file.open_array(
          layer_ + "/data",
          {.rank = 1, .key = 0, .is_of_rows = true, .missing = MissingChunks::kDamage})),
      indices_(file.open_array(
          layer_ + "/indices",
          {.rank = 1, .key = 1, .is_of_rows = true, .missing = missing_indices(n_cols)})),
      offsets_(file, layer_, n_rows_, checked_entries()),
      decoder_(file.path(), layer_, n_cols_, indices_->number(), data_->number()) {}

std::int64_t CsrMatrix::checked_entries() const {
  if (indices_->length() != data_->length())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data and indices of '{}' differ in length: {}, {}", layer_, data_->length(),
                indices_->length());
  return data_->length();
}

void CsrMatrix::describe(StoreInfo& info) const {
  info.nnz = nnz();
  if (const StoredArray& indptr = offsets_.array(); !indptr.is_mapped()) {
    info.inflated_bytes += indptr.n_chunks() * indptr.chunk_bytes();
    info.scratch_bytes = std::max(info.scratch_bytes, indptr.inflating_bytes());
  }
  if (data_->is_mapped() || n_rows_ == 0) return;
  const std::int64_t row_entries = std::max<std::int64_t>(1, nnz() / n_rows_);
  info.rows_per_chunk = std::max<std::int64_t>(1, data_->chunk_elements() / row_entries);
}

std::unique_ptr<FetchedRows> CsrMatrix::begin(const chunked::ChunkCache& cache,
                                              std::span<const std::int64_t> rows,
                                              const ReadContext&) const {
  return begin_csr_rows(*this, cache, rows);
}

ReadPlan CsrMatrix::plan(const chunked::ChunkCache& cache,
                         std::span<const std::int64_t> rows) const {
  return plan_csr_rows(*this, cache, rows);
}

}  // namespace cellfeed::format
