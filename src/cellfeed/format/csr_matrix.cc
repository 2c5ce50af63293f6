// CsrMatrix: opening and checking one CSR group.
#include "cellfeed/format/csr_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/csr_rows.h"

namespace cellfeed::format {
CsrMatrix::CsrMatrix(const H5File& file, std::string group, std::int64_t n_rows,
                     std::int64_t n_cols)
    : file_(file),
      layer_(std::move(group)),
      n_rows_(n_rows),
      n_cols_(n_cols),
      data_(file, layer_ + "/data", 1, 0, file.row_bytes()),
      indices_(file, layer_ + "/indices", 1, 1, file.row_bytes()),
      indptr_(file, layer_ + "/indptr", 1, 2, file.bytes()),
      decoder_(file.path(), layer_, n_cols_, indices_.number(), data_.number()) {
  if (indices_.length() != data_.length())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data and indices of '{}' differ in length: {}, {}", layer_, data_.length(),
                indices_.length());
  if (indptr_.length() != n_rows_ + 1)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must have one entry more than rows: {} entries, {} rows", layer_,
                indptr_.length(), n_rows_);
  const bool is_mappable = indptr_.contiguous() != nullptr && indptr_.number().is_native() &&
                           (indptr_.dtype() == DType::kI32 || indptr_.dtype() == DType::kI64);
  if (!is_mappable) offsets_ = indptr_.read_integers();
  check_offsets();
}

// All of them where they were read anyway; the ends only where they are mapped, since opening must
// not read a table as long as the file has cells: row_entries checks each row it hands out.
void CsrMatrix::check_offsets() const {
  for (std::int64_t row = 0; row + 1 < std::ssize(offsets_); ++row)
    if (offsets_[row] > offsets_[row + 1]) throw_bad_offsets(row, offsets_[row], offsets_[row + 1]);
  if (offset_at(0) != 0 || offset_at(n_rows_) != nnz())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must start at 0 and end at the number of entries: starts at {}, "
                "ends at {}, entries {}",
                layer_, offset_at(0), offset_at(n_rows_), nnz());
}

std::int64_t CsrMatrix::offset_at(std::int64_t i) const {
  if (!offsets_.empty()) return offsets_[i];
  if (indptr_.dtype() == DType::kI32) {
    std::int32_t offset;
    std::memcpy(&offset, indptr_.contiguous() + i * 4, sizeof offset);
    return offset;
  }
  std::int64_t offset;
  std::memcpy(&offset, indptr_.contiguous() + i * 8, sizeof offset);
  return offset;
}

void CsrMatrix::describe(StoreInfo& info) const {
  info.nnz = nnz();
  if (!data_.is_compressed() || n_rows_ == 0) return;
  const std::int64_t row_entries = std::max<std::int64_t>(1, nnz() / n_rows_);
  info.rows_per_chunk = std::max<std::int64_t>(1, data_.chunk_elements() / row_entries);
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

chunked::EntryRange CsrMatrix::row_entries(std::int64_t row) const {
  if (row < 0 || row >= n_rows_)
    throw_error(ErrorKind::kOutOfRange, file_.path(), "row out of range: {}, rows {}", row,
                n_rows_);
  const chunked::EntryRange range{offset_at(row), offset_at(row + 1)};
  if (range.begin < 0 || range.begin > range.end || range.end > nnz())
    throw_bad_offsets(row, range.begin, range.end);
  if (range.end - range.begin > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "a row of '{}' has more than 2^31-1 entries: row {}, entries {}", layer_, row,
                range.end - range.begin);
  return range;
}

void CsrMatrix::throw_bad_offsets(std::int64_t row, std::int64_t begin, std::int64_t end) const {
  throw_error(ErrorKind::kCorruptData, file_.path(),
              "indptr of '{}' must not decrease nor pass the number of entries: row {} goes from "
              "{} to {}, entries {}",
              layer_, row, begin, end, nnz());
}

}  // namespace cellfeed::format
