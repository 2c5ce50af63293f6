// RowDecoder: vectorisable kernels for the common row, a sorting one for the rest.
#include "cellfeed/format/csr_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/csr_row_kernels.h"
#include "cellfeed/format/row_copy.h"
#include "cellfeed/format/stored_values.h"

namespace cellfeed::format {
namespace {

template <typename T>
bool is_out_of_range(T index, std::int64_t n_cols) {
  if constexpr (std::is_signed_v<T>)
    return index < 0 || static_cast<std::int64_t>(index) >= n_cols;
  else
    return static_cast<std::uint64_t>(index) >= static_cast<std::uint64_t>(n_cols);
}

template <typename T>
bool widen_indices(const RowPiece& piece, std::int32_t* out) {
  bool ascends = true;
  for (std::int64_t i = 0; i < piece.length; ++i) {
    out[i] = load<T>(piece.data, i);
    ascends &= i == 0 || out[i] > out[i - 1];
  }
  return ascends;
}

// Copies the indices of one piece; true when each is larger than the one before.
template <typename T>
bool copy_in_order(const RowPiece& piece, std::int32_t* out, UpcomingBytes upcoming,
                   bool past_caches) {
  if constexpr (sizeof(T) == sizeof(std::int32_t))
    return copy_ascending(piece.data, piece.length, out, upcoming, past_caches);
  ask_for(upcoming);
  if constexpr (sizeof(T) < sizeof(std::int32_t)) return widen_indices<T>(piece, out);
  return narrow_indices(piece.data, static_cast<std::size_t>(piece.length), out);
}

// Copies indices; true when they ascend strictly from *previous on. *bad_position: the first index
// out of range.
template <typename T>
bool copy_piece(const RowPiece& piece, std::int64_t* previous, std::int32_t* out,
                std::int64_t n_cols, std::int64_t* bad_position, UpcomingBytes upcoming,
                bool past_caches) {
  const std::int64_t n = piece.length;
  unsigned bad = 0;
  const bool is_sorted = copy_in_order<T>(piece, out, upcoming, past_caches);
  const T first = load<T>(piece.data, 0);
  const T last = load<T>(piece.data, n - 1);
  if (is_sorted) {
    // Ascending: the ends bound the rest. Unsigned ones beyond the signed are out of range anyway.
    bad = static_cast<unsigned>(is_out_of_range(first, n_cols) || is_out_of_range(last, n_cols));
  } else {
    for (std::int64_t i = 0; i < n; ++i)
      bad |= static_cast<unsigned>(is_out_of_range(load<T>(piece.data, i), n_cols));
  }
  if (bad != 0) {
    std::int64_t i = 0;
    while (!is_out_of_range(load<T>(piece.data, i), n_cols)) ++i;
    *bad_position = i;
    return false;
  }
  const bool ascends = is_sorted && static_cast<std::int64_t>(first) > *previous;
  *previous = static_cast<std::int64_t>(last);
  return ascends;
}

// Integers are summed in 64 bits, floats in their own type, as scipy does; booleans stay booleans.
template <typename From>
using SumType = std::conditional_t<
    std::is_floating_point_v<From>, From,
    std::conditional_t<std::is_same_v<From, std::uint64_t>, std::uint64_t, std::int64_t>>;

template <typename Sum>
bool add_overflows(Sum a, Sum b, Sum* sum) {
  if constexpr (std::is_floating_point_v<Sum>) {
    *sum = a + b;
    return false;
  } else {
    return __builtin_add_overflow(a, b, sum);
  }
}

struct MergedRow {
  std::int32_t count = 0;
  bool fits = true;
  std::string misfit;
};

// Entries in `order` (sorted by index, then by place): equal indices become one entry.
template <typename From, typename To>
MergedRow merge_entries(std::span<const std::pair<std::int32_t, std::int32_t>> order,
                        const std::byte* data, bool may_round, std::int32_t* out_indices, To* out) {
  using Sum = SumType<From>;
  MergedRow merged;
  for (std::size_t i = 0; i < order.size();) {
    Sum sum = static_cast<Sum>(load_value<From>(data, order[i].second));
    Fit fit;
    std::size_t j = i + 1;
    for (; j < order.size() && order[j].first == order[i].first; ++j)
      if (add_overflows(sum, static_cast<Sum>(load_value<From>(data, order[j].second)), &sum))
        fit.is_near = false;
    if constexpr (std::is_same_v<From, bool>) sum = sum != 0;
    out_indices[merged.count] = order[i].first;
    out[merged.count++] = convert_value<To>(sum, &fit);
    if (!fit.allows(may_round) && merged.fits) {
      merged.fits = false;
      merged.misfit = fmt::format("{}", sum);
    }
    i = j;
  }
  return merged;
}

// Rows rarely have more than one piece.
UpcomingBytes first_piece(std::span<const RowPiece> pieces, const StoredNumber& number) {
  if (pieces.empty()) return {};
  return {pieces[0].data, pieces[0].length * number.bytes};
}

std::int64_t n_entries(std::span<const RowPiece> pieces) {
  std::int64_t n = 0;
  for (const RowPiece& piece : pieces) n += piece.length;
  return n;
}

template <typename Kernel>
Kernel index_kernel_of(DType dtype) {
  Kernel kernel = nullptr;
  if (dtype == DType::kBool || is_float(dtype)) return kernel;
  dispatch_dtype(dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_integral_v<T> && !std::is_same_v<T, bool>) kernel = copy_piece<T>;
  });
  return kernel;
}

}  // namespace

RowDecoder::RowDecoder(std::string path, std::string layer, std::int64_t n_cols, StoredNumber index,
                       StoredNumber value)
    : path_(std::move(path)),
      layer_(std::move(layer)),
      n_cols_(n_cols),
      index_(index),
      value_(value),
      index_kernel_(index_kernel_of<IndexKernel>(index.dtype)) {
  if (index_kernel_ == nullptr)
    throw_error(ErrorKind::kUnsupported, path_, "column indices must be integers ({}/indices): {}",
                layer_, dtype_name(index.dtype));
  if (n_cols > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kUnsupported, path_,
                "more than 2^31-1 columns are not readable ({}): {}", layer_, n_cols);
}

std::int32_t RowDecoder::decode(std::int64_t row, std::span<const RowPiece> indices,
                                std::span<const RowPiece> values, DType out, Casting casting,
                                std::int32_t* out_indices, void* out_values,
                                const Surroundings& around) const {
  if (index_.is_native() && value_.is_native())
    return decode_native(row, indices, values, out, casting, out_indices, out_values, around);
  thread_local std::vector<std::byte> index_scratch, value_scratch;
  const RowPiece native_indices = join_native(indices, index_, index_scratch);
  const RowPiece native_values = join_native(values, value_, value_scratch);
  return decode_native(row, {&native_indices, 1}, {&native_values, 1}, out, casting, out_indices,
                       out_values, around);
}

std::int32_t RowDecoder::decode_native(std::int64_t row, std::span<const RowPiece> indices,
                                       std::span<const RowPiece> values, DType out, Casting casting,
                                       std::int32_t* out_indices, void* out_values,
                                       const Surroundings& around) const {
  const UpcomingBytes next_values = first_piece(around.next_values, value_);
  const std::int64_t n = n_entries(indices);
  const bool is_moved = copy_moved(indices, out_indices, around);
  if (!is_moved && !copy_indices(row, indices, out_indices, around)) {
    const std::int32_t left =
        decode_unsorted(row, values, out, casting, n, out_indices, out_values);
    move_columns({out_indices, static_cast<std::size_t>(left)}, around.places, out_indices);
    return left;
  }
  if (!is_moved)
    move_columns({out_indices, static_cast<std::size_t>(n)}, around.places, out_indices);
  const ValueConversion conversion{value_.dtype, out, may_round(casting, value_.dtype, out)};
  auto* target = static_cast<std::byte*>(out_values);
  for (const RowPiece& piece : values) {
    const std::int64_t misfit =
        convert_values(conversion, piece, target, next_values, around.past_caches);
    if (misfit != kNoPosition)
      throw_precision(row, value_text(value_.dtype, piece.data, misfit), casting, out);
    target += piece.length * static_cast<std::int64_t>(dtype_bytes(out));
  }
  return static_cast<std::int32_t>(n);
}

bool RowDecoder::copy_moved(std::span<const RowPiece> indices, std::int32_t* out,
                            const Surroundings& around) const {
  if (around.places.empty() || dtype_bytes(index_.dtype) != sizeof(std::int32_t)) return false;
  const UpcomingBytes next_indices = first_piece(around.next_indices, index_);
  std::int64_t previous = -1;
  for (const RowPiece& piece : indices) {
    if (piece.length == 0) continue;
    if (load<std::int32_t>(piece.data, 0) <= previous ||
        !copy_places(piece.data, piece.length, around.places.places, around.places.narrow, out,
                     next_indices, around.past_caches))
      return false;
    previous = load<std::int32_t>(piece.data, piece.length - 1);
    out += piece.length;
  }
  return true;
}

bool RowDecoder::copy_indices(std::int64_t row, std::span<const RowPiece> indices,
                              std::int32_t* out, const Surroundings& around) const {
  const UpcomingBytes next_indices = first_piece(around.next_indices, index_);
  std::int64_t n = 0;
  std::int64_t previous = -1;
  bool ascends = true;
  for (const RowPiece& piece : indices) {
    if (piece.length == 0) continue;
    std::int64_t bad_position = kNoPosition;
    if (!index_kernel_(piece, &previous, out + n, n_cols_, &bad_position, next_indices,
                       around.past_caches)) {
      if (bad_position != kNoPosition) throw_bad_index(row, indices, n + bad_position);
      ascends = false;
    }
    n += piece.length;
  }
  return ascends;
}

std::int32_t RowDecoder::decode_unsorted(std::int64_t row, std::span<const RowPiece> values,
                                         DType out, Casting casting, std::int64_t n,
                                         std::int32_t* out_indices, void* out_values) const {
  thread_local std::vector<std::pair<std::int32_t, std::int32_t>> order;
  thread_local std::vector<std::byte> joined;
  order.resize(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) order[i] = {out_indices[i], static_cast<std::int32_t>(i)};
  std::sort(order.begin(), order.end());
  joined.clear();
  const auto width = static_cast<std::int64_t>(dtype_bytes(value_.dtype));
  for (const RowPiece& piece : values)
    joined.insert(joined.end(), piece.data, piece.data + piece.length * width);
  const MergedRow merged = dispatch_pair(value_.dtype, out, [&](auto stored, auto to) {
    return merge_entries<decltype(stored)>(order, joined.data(),
                                           may_round(casting, value_.dtype, out), out_indices,
                                           static_cast<decltype(to)*>(out_values));
  });
  if (!merged.fits) throw_precision(row, merged.misfit, casting, out);
  return merged.count;
}

void RowDecoder::throw_bad_index(std::int64_t row, std::span<const RowPiece> indices,
                                 std::int64_t position) const {
  std::int64_t start = 0;
  for (const RowPiece& piece : indices) {
    if (position < start + piece.length)
      throw_error(ErrorKind::kCorruptData, path_,
                  "column index out of range in {}/indices: row {}, entry {}: index {}, columns {}",
                  layer_, row, position, value_text(index_.dtype, piece.data, position - start),
                  n_cols_);
    start += piece.length;
  }
  throw Error(ErrorKind::kInternal, "index error outside the row", path_);
}

void RowDecoder::throw_precision(std::int64_t row, const std::string& value, Casting casting,
                                 DType out) const {
  throw_error(ErrorKind::kPrecision, path_, "a {} value of {} {}: row {}, value {}",
              dtype_name(value_.dtype), layer_,
              misfit_text(casting, value_.dtype, out, is_obsm(layer_)), row, value);
}

}  // namespace cellfeed::format
