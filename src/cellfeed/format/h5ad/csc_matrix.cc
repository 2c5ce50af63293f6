#include "cellfeed/format/h5ad/csc_matrix.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <utility>
#include <variant>

#include "cellfeed/base/error.h"
#include "cellfeed/format/h5ad/layers.h"

namespace cellfeed::format::h5ad {
namespace {

// Few enough that the smallest budget holds some pieces, many enough that their parts for one of
// many buckets are worth a copy.
constexpr std::int64_t kPieceEntries = std::int64_t{1} << 18;
constexpr std::uint64_t kMaxLength = std::numeric_limits<std::int64_t>::max() / 16;

hdf5::Dataset find_array(const H5File& file, const std::string& name) {
  const auto object = file.hdf5().find(name);
  if (!object || object->kind() != hdf5::ObjectKind::kDataset)
    throw_error(ErrorKind::kCorruptData, file.path(), "no such dataset: '{}'", name);
  hdf5::Dataset dataset = object->dataset();
  if (dataset.shape().size() != 1)
    throw_error(ErrorKind::kCorruptData, file.path(), "must have one dimension: '{}' has {}", name,
                dataset.shape().size());
  if (dataset.shape()[0] > kMaxLength)
    throw_error(ErrorKind::kCorruptData, file.path(), "impossible length: '{}': {}", name,
                dataset.shape()[0]);
  return dataset;
}

void require_integers(const NumberArray& array, const std::string& path) {
  if (!is_integer(array.dtype()))
    throw_error(ErrorKind::kCorruptData, path, "must hold integers: '{}' holds {}", array.name(),
                dtype_name(array.dtype()));
}

// A multiple of the larger chunk, so that a chunk is inflated once.
std::int64_t piece_entries(const NumberArray& data, const NumberArray& indices) {
  const std::int64_t chunk = std::max(data.chunk_elements(), indices.chunk_elements());
  if (chunk == 0) return kPieceEntries;
  return std::max<std::int64_t>(1, kPieceEntries / chunk) * chunk;
}

}  // namespace

NumberArray::NumberArray(const H5File& file, const std::string& name, hdf5::Unwritten unwritten)
    : name_(name),
      bytes_(find_array(file, name), unwritten),
      number_(stored_number(bytes_.dataset().datatype(), file.path(), name)),
      length_(static_cast<std::int64_t>(bytes_.shape()[0])) {}

std::int64_t NumberArray::chunk_elements() const {
  const auto* index = bytes_.chunk_index();
  return index == nullptr ? 0 : static_cast<std::int64_t>(index->grid().chunk_shape()[0]);
}

void NumberArray::read(std::int64_t begin, std::int64_t n, std::span<std::byte> out) const {
  const hdf5::Box box{{static_cast<std::uint64_t>(begin)}, {static_cast<std::uint64_t>(n)}};
  if (number_.is_native()) return bytes_.read(box, out);
  std::vector<std::byte> stored(static_cast<std::size_t>(n * number_.bytes));
  bytes_.read(box, stored);
  number_.to_native(stored, out.data());
}

std::vector<std::int64_t> NumberArray::read_integers(const std::string& path) const {
  require_integers(*this, path);
  std::vector<std::int64_t> integers;
  integers.reserve(static_cast<std::size_t>(length_));
  std::vector<std::byte> native;
  for (std::int64_t begin = 0; begin < length_; begin += kPieceEntries) {
    const std::int64_t n = std::min(kPieceEntries, length_ - begin);
    native.resize(static_cast<std::size_t>(n) * dtype_bytes(dtype()));
    read(begin, n, native);
    const auto part = StoredNumber(dtype()).to_integers(native);
    integers.insert(integers.end(), part.begin(), part.end());
  }
  return integers;
}

CscMatrix::CscMatrix(const H5File& file, std::string layer)
    : file_(file),
      layer_(std::move(layer)),
      n_rows_(read_matrix_shape(file, layer_).first),
      n_cols_(read_matrix_shape(file, layer_).second),
      data_(file, layer_ + "/data", hdf5::Unwritten::kDamage),
      indices_(file, layer_ + "/indices", hdf5::Unwritten::kDamage),
      piece_entries_(piece_entries(data_, indices_)) {
  require_integers(indices_, file_.path());
  if (indices_.length() != data_.length())
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "data and indices of '{}' differ in length: {}, {}", layer_, data_.length(),
                indices_.length());
  if (n_rows_ > std::numeric_limits<std::uint32_t>::max() ||
      n_cols_ > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kUnsupported, file_.path(),
                "more than 2^32-1 rows or 2^31-1 columns are not readable ({}): {} x {}", layer_,
                n_rows_, n_cols_);
  const NumberArray indptr(file, layer_ + "/indptr");
  if (indptr.length() != n_cols_ + 1)
    throw_error(ErrorKind::kCorruptData, file_.path(),
                "indptr of '{}' must have one entry more than columns: {} entries, {} columns",
                layer_, indptr.length(), n_cols_);
  offsets_ = indptr.read_integers(file.path());
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
  const auto value_bytes = static_cast<std::int64_t>(dtype_bytes(data_.dtype()));
  const auto index_bytes = static_cast<std::int64_t>(dtype_bytes(indices_.dtype()));
  // A chunk is inflated beside the piece that it is copied to.
  const std::int64_t chunk_bytes =
      std::max(data_.chunk_elements() * value_bytes, indices_.chunk_elements() * index_bytes);
  const auto entry_bytes = static_cast<std::int64_t>(sizeof(std::uint32_t) + sizeof(std::int32_t));
  return std::min(piece_entries_, nnz()) * (entry_bytes + value_bytes + index_bytes) +
         2 * chunk_bytes;
}

void CscMatrix::read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const {
  file_.require_unchanged();
  const std::int64_t begin = piece * piece_entries_;
  entries.n = std::min(piece_entries_, nnz() - begin);
  read_rows(begin, entries);
  if (parts == EntryParts::kRows) return file_.require_unchanged();
  name_columns(begin, entries);
  entries.values.reset(static_cast<std::size_t>(entries.n) * dtype_bytes(data_.dtype()));
  data_.read(begin, entries.n, entries.values.span());
  file_.require_unchanged();
}

void CscMatrix::read_rows(std::int64_t begin, Entries& entries) const {
  thread_local std::vector<std::byte> stored;
  const auto n = static_cast<std::size_t>(entries.n);
  stored.resize(n * dtype_bytes(indices_.dtype()));
  indices_.read(begin, entries.n, stored);
  entries.rows.reset(n);
  std::uint32_t* rows = entries.rows.data();
  const auto n_rows = static_cast<std::uint64_t>(n_rows_);
  dispatch_dtype(indices_.dtype(), [&](auto zero) {
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

}  // namespace cellfeed::format::h5ad
