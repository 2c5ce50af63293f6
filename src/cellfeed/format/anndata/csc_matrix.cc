#include "cellfeed/format/anndata/csc_matrix.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/format/anndata/layers.h"

namespace cellfeed::format::anndata {
namespace {

// Few enough that the smallest budget holds some pieces, many enough that their parts for one of
// many buckets are worth a copy.
constexpr std::int64_t kPieceEntries = std::int64_t{1} << 18;

// 0 where it is read where it lies.
std::int64_t chunk_bytes(const StoredArray& array) {
  return array.is_mapped() ? 0 : array.chunk_bytes();
}

// A multiple of the larger chunk, so that a chunk is inflated once.
std::int64_t piece_entries(const StoredArray& data, const StoredArray& indices) {
  const auto of = [](const StoredArray& array) {
    return array.contiguous() == nullptr && array.length() > 0 ? array.chunk_elements() : 0;
  };
  const std::int64_t chunk = std::max(of(data), of(indices));
  if (chunk == 0) return kPieceEntries;
  return std::max<std::int64_t>(1, kPieceEntries / chunk) * chunk;
}

std::unique_ptr<StoredArray> open_entries(const StoredTree& file, const std::string& path,
                                          std::int32_t key, MissingChunks missing) {
  return file.open_array(path, {.rank = 1, .key = key, .missing = missing});
}

}  // namespace

CscMatrix::CscMatrix(const StoredTree& file, std::string layer)
    : file_(file),
      layer_(std::move(layer)),
      n_rows_(read_matrix_shape(file, layer_).first),
      n_cols_(read_matrix_shape(file, layer_).second),
      data_(open_entries(file, layer_ + "/data", 0, MissingChunks::kDamage)),
      // Of one row all indices are 0, and may have been left out for that.
      indices_(open_entries(file, layer_ + "/indices", 1,
                            n_rows_ == 1 ? MissingChunks::kFilled : MissingChunks::kDamage)),
      piece_entries_(piece_entries(*data_, *indices_)) {
  indices_->require_integers();
  if (indices_->length() != data_->length())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data and indices of '{}' differ in length: {}, {}", layer_, data_->length(),
                indices_->length());
  if (n_rows_ > std::numeric_limits<std::uint32_t>::max() ||
      n_cols_ > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kUnsupported, file_.path(),
                "more than 2^32-1 rows or 2^31-1 columns are not readable ({}): {} x {}", layer_,
                n_rows_, n_cols_);
  const auto indptr = open_entries(file, layer_ + "/indptr", 2, MissingChunks::kFilled);
  indptr->require_integers();
  if (indptr->length() != n_cols_ + 1)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must have one entry more than columns: {} entries, {} columns",
                layer_, indptr->length(), n_cols_);
  const std::array<chunked::EntryRange, 1> whole{{{0, n_cols_ + 1}}};
  offsets_ = read_integers(*indptr, chunked::ChunkCache(0), whole, nullptr);
  check_offsets();
}

void CscMatrix::check_offsets() const {
  for (std::int64_t column = 0; column < n_cols_; ++column)
    if (offsets_[column] > offsets_[column + 1])
      throw_error(ErrorKind::kCorruptData, file_.path(),
                  "indptr of '{}' must not decrease: column {} goes from {} to {}", layer_, column,
                  offsets_[column], offsets_[column + 1]);
  if (offsets_.front() != 0 || offsets_.back() != nnz())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must start at 0 and end at the number of entries: starts at {}, "
                "ends at {}, entries {}",
                layer_, offsets_.front(), offsets_.back(), nnz());
}

std::int64_t CscMatrix::piece_bytes() const {
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(data_->dtype()));
  const auto index_bytes = static_cast<std::int64_t>(dtype_bytes(indices_->dtype()));
  // A chunk is inflated beside the elements that are copied from it, and these beside the piece.
  const std::int64_t inflated =
      std::max(chunk_bytes(*data_), chunk_bytes(*indices_)) +
      std::min(piece_entries_, nnz()) * std::max(value_bytes, index_bytes);
  const auto entry_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t) + sizeof(std::int32_t));
  return std::min(piece_entries_, nnz()) * (entry_bytes + value_bytes + index_bytes) + 2 * inflated;
}

void CscMatrix::read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const {
  file_.require_unchanged();
  const std::int64_t begin = piece * piece_entries_;
  entries.n = std::min(piece_entries_, nnz() - begin);
  read_rows(begin, entries);
  if (parts == EntryParts::kRows) return file_.require_unchanged();
  name_columns(begin, entries);
  entries.values.reset(static_cast<std::size_t>(entries.n) * dtype_bytes(data_->dtype()));
  read_numbers(*data_, begin, entries.n, entries.values.span());
  file_.require_unchanged();
}

void CscMatrix::read_numbers(const StoredArray& array, std::int64_t begin, std::int64_t n,
                             std::span<std::byte> out) const {
  const chunked::ChunkCache none(0);
  const std::array<chunked::EntryRange, 1> range{{{begin, begin + n}}};
  if (array.number().is_native()) return read_elements(array, none, range, nullptr, out);
  std::vector<std::byte> stored(static_cast<std::size_t>(n * array.element_bytes()));
  read_elements(array, none, range, nullptr, stored);
  array.number().to_native(stored, out.data());
}

void CscMatrix::read_rows(std::int64_t begin, Entries& entries) const {
  thread_local std::vector<std::byte> stored;
  const auto n = static_cast<std::size_t>(entries.n);
  stored.resize(n * dtype_bytes(indices_->dtype()));
  read_numbers(*indices_, begin, entries.n, stored);
  entries.rows.reset(n);
  std::uint32_t* rows = entries.rows.data();
  const auto n_rows = static_cast<std::uint64_t>(n_rows_);
  dispatch_dtype(indices_->dtype(), [&](auto zero) {
    using T = decltype(zero);
    const auto row_at = [&](std::size_t i) {
      T row;
      std::memcpy(&row, stored.data() + i * sizeof(T), sizeof(T));
      return row;
    };
    bool fits = true;
    for (std::size_t i = 0; i < n; ++i) {
      // Negative numbers become large ones.
      const auto row = static_cast<std::uint64_t>(static_cast<std::int64_t>(row_at(i)));
      fits = fits && row < n_rows;
      rows[i] = static_cast<std::uint32_t>(row);
    }
    for (std::size_t i = 0; !fits && i < n; ++i)
      if (static_cast<std::uint64_t>(static_cast<std::int64_t>(row_at(i))) >= n_rows)
        throw_bad_row(begin + static_cast<std::int64_t>(i), fmt::format("{}", row_at(i)));
  });
}

void CscMatrix::name_columns(std::int64_t begin, Entries& entries) const {
  entries.columns.reset(static_cast<std::size_t>(entries.n));
  auto column = std::upper_bound(offsets_.begin(), offsets_.end(), begin) - offsets_.begin() - 1;
  for (std::int64_t at = begin, end = begin + entries.n; at < end; ++column) {
    const std::int64_t stop = std::min(end, offsets_[static_cast<std::size_t>(column) + 1]);
    std::fill(entries.columns.data() + (at - begin), entries.columns.data() + (stop - begin),
              static_cast<std::int32_t>(column));
    at = stop;
  }
}

void CscMatrix::throw_bad_row(std::int64_t entry, const std::string& row) const {
  const auto column = std::upper_bound(offsets_.begin(), offsets_.end(), entry) - offsets_.begin();
  throw_error(ErrorKind::kCorruptData, file_.path(),
              "row index out of range in {}/indices: column {}, entry {}: index {}, rows {}",
              layer_, column - 1, entry, row, n_rows_);
}

}  // namespace cellfeed::format::anndata
