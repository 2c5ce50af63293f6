#include "cellfeed/convert/inputs/row_reader.h"

#include <bit>
#include <numeric>

namespace cellfeed::convert {
namespace {

// Sorts a row by scattering it over all columns and walking the bits of those that are set.
template <typename T>
class ColumnScatter {
 public:
  explicit ColumnScatter(std::int64_t n_cols)
      : values_(static_cast<std::size_t>(n_cols)),
        is_set_((static_cast<std::size_t>(n_cols) + 63) / 64, 0) {}

  void renumber(CsrPiece& piece, std::span<const std::int32_t> column_map) {
    T* values = reinterpret_cast<T*>(piece.values.data());
    std::int64_t end = 0;
    for (std::int64_t row = 0; row < piece.n_rows(); ++row) {
      for (std::int64_t i = piece.indptr[row]; i < piece.indptr[row + 1]; ++i) {
        const std::int32_t column = column_map[piece.indices[i]];
        if (column < 0) continue;
        values_[column] = values[i];
        is_set_[column >> 6] |= std::uint64_t{1} << (column & 63);
      }
      piece.indptr[row] = end;
      end = gather(piece.indices.data(), values, end);
    }
    if (!piece.indptr.empty()) piece.indptr.back() = end;
  }

 private:
  std::int64_t gather(std::int32_t* indices, T* values, std::int64_t end) {
    for (std::size_t word = 0; word < is_set_.size(); ++word) {
      for (std::uint64_t bits = is_set_[word]; bits != 0; bits &= bits - 1) {
        const std::size_t column = word * 64 + static_cast<std::size_t>(std::countr_zero(bits));
        indices[end] = static_cast<std::int32_t>(column);
        values[end++] = values_[column];
      }
      is_set_[word] = 0;
    }
    return end;
  }

  std::vector<T> values_;
  std::vector<std::uint64_t> is_set_;
};

}  // namespace

DType exact_decode_dtype(DType stored) {
  switch (stored) {
    case DType::kBool:
    case DType::kU8:
    case DType::kI8:
    case DType::kU16:
    case DType::kI16:
    case DType::kI32:
      return DType::kI32;
    case DType::kU32:
    case DType::kU64:
    case DType::kI64:
      return DType::kI64;
    case DType::kF32:
      return DType::kF32;
    case DType::kF64:
      return DType::kF64;
  }
  throw Error(ErrorKind::kInternal, "unknown dtype");
}

void read_rows(const format::RowStore& store, std::span<const std::int64_t> rows, DType dtype,
               Casting casting, CsrPiece& piece) {
  const auto fetched = format::fetch_rows(store, rows);
  const std::size_t n = rows.size();
  piece.dtype = dtype;
  piece.indptr.assign(n + 1, 0);
  fetched->sizes(std::span(piece.indptr).subspan(1));
  std::partial_sum(piece.indptr.begin(), piece.indptr.end(), piece.indptr.begin());
  const std::int64_t capacity = piece.indptr.back();
  piece.indices.reset(capacity);
  piece.values.reset(capacity * dtype_bytes(piece.dtype));
  std::vector<std::int32_t> counts(n);
  format::CsrTarget target;
  target.place = piece.indptr.data();
  target.indices = piece.indices.data();
  target.values = piece.values.data();
  target.dtype = piece.dtype;
  target.casting = casting;
  target.counts = counts.data();
  fetched->decode(0, static_cast<std::int64_t>(n), target);
  // Duplicate entries were summed.
  if (std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) != capacity)
    matrix::close_gaps(piece.indptr, counts, piece.indices.data(), piece.values.data(),
                       dtype_bytes(piece.dtype));
}

void read_rows(const format::RowStore& store, std::span<const std::int64_t> rows, CsrPiece& piece) {
  read_rows(store, rows, exact_decode_dtype(store.info().value_dtype), Casting::kExact, piece);
}

void read_rows(const format::RowStore& store, std::int64_t begin, std::int64_t end,
               CsrPiece& piece) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(end - begin));
  std::iota(rows.begin(), rows.end(), begin);
  read_rows(store, rows, piece);
}

void renumber_columns(CsrPiece& piece, std::span<const std::int32_t> column_map,
                      std::int64_t n_cols) {
  dispatch_dtype(piece.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (!std::is_same_v<T, bool>) ColumnScatter<T>(n_cols).renumber(piece, column_map);
  });
}

PiecePool::Lease PiecePool::acquire() {
  auto piece = spares_.take();
  return Lease(*this, piece ? std::move(piece) : std::make_unique<CsrPiece>());
}

PiecePool::Lease::~Lease() {
  if (piece_) pool_->spares_.give(std::move(piece_));
}

}  // namespace cellfeed::convert
