#include "cellfeed/format/shard/encoded_rows.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/format/shard/record/record.h"
#include "cellfeed/format/shard/record/record_checksum.h"
#include "cellfeed/format/shard/record/record_layout.h"

namespace cellfeed::format::shard {
namespace {

// Reused from row to row.
struct Scratch {
  std::vector<std::int32_t> indices;
  std::vector<std::size_t> order;
  std::vector<std::byte> picked;     // values of the genes that stay, in stored order, as given
  std::vector<std::byte> converted;  // the same as value_dtype
};

struct Row {
  std::span<const std::int32_t> indices;
  const std::byte* values = nullptr;
};

void check_indices(std::span<const std::int32_t> indices, std::int64_t n_genes, std::int64_t row) {
  std::int64_t previous = -1;
  for (const std::int32_t index : indices) {
    if (index < 0 || index >= n_genes)
      throw Error(
          ErrorKind::kOutOfRange,
          fmt::format("a gene index is outside the {} genes: {} in row {}", n_genes, index, row));
    if (index <= previous)
      throw_invalid("gene indices must be sorted and unique: {} follows {} in row {}", index,
                    previous, row);
    previous = index;
  }
}

// Renumbers the genes, leaves out those without a place, and sorts what is left.
Row place_genes(const Row& row, std::size_t width, const RowEncoding& encoding,
                std::int64_t row_number, Scratch& scratch) {
  const auto n_source = static_cast<std::int64_t>(encoding.gene_position.size());
  check_indices(row.indices, n_source, row_number);
  auto& order = scratch.order;
  order.clear();
  for (std::size_t i = 0; i < row.indices.size(); ++i)
    if (encoding.gene_position[row.indices[i]] >= 0) order.push_back(i);
  const auto position = [&](std::size_t i) { return encoding.gene_position[row.indices[i]]; };
  const auto before = [&](std::size_t a, std::size_t b) { return position(a) < position(b); };
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  scratch.indices.resize(order.size());
  scratch.picked.resize(order.size() * width);
  for (std::size_t k = 0; k < order.size(); ++k) {
    scratch.indices[k] = position(order[k]);
    std::memcpy(scratch.picked.data() + k * width, row.values + order[k] * width, width);
  }
  return {scratch.indices, scratch.picked.data()};
}

template <typename To, typename From>
bool convert_exactly(const std::byte* in, std::size_t n, std::byte* out) {
  bool exact = true;
  for (std::size_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    const To converted = convert_value<To>(value, &exact);
    std::memcpy(out + i * sizeof(To), &converted, sizeof(To));
  }
  return exact;
}

// False unless each is 0 or 1.
template <typename From>
bool convert_to_bools(const std::byte* in, std::size_t n, std::byte* out) {
  for (std::size_t i = 0; i < n; ++i) {
    From value;
    std::memcpy(&value, in + i * sizeof(From), sizeof(From));
    if (value != From{0} && value != From{1}) return false;
    out[i] = value == From{0} ? std::byte{0} : std::byte{1};
  }
  return true;
}

bool convert_exactly(DType from, DType to, const std::byte* in, std::size_t n, std::byte* out) {
  return dispatch_dtype(to, [&](auto to_zero) {
    return dispatch_dtype(from, [&](auto from_zero) -> bool {
      using To = decltype(to_zero);
      using From = decltype(from_zero);
      if constexpr (std::is_same_v<To, bool> && !std::is_same_v<From, bool>)
        return convert_to_bools<From>(in, n, out);
      else
        return convert_exactly<To, From>(in, n, out);
    });
  });
}

const std::byte* values_as(DType stored, DType given, const Row& row, std::int64_t row_number,
                           Scratch& scratch) {
  if (stored == given) return row.values;
  scratch.converted.resize(row.indices.size() * dtype_bytes(stored));
  if (!convert_exactly(given, stored, row.values, row.indices.size(), scratch.converted.data()))
    throw Error(
        ErrorKind::kPrecision,
        fmt::format("a value of row {} of the slice is {} and not exactly representable as "
                    "{}: store a wider type (rows of layout 'dense' are float32: use 'packed')",
                    row_number, dtype_name(given), dtype_name(stored)));
  return scratch.converted.data();
}

void append_dense(const Row& row, const std::byte* values, std::int64_t n_genes,
                  std::vector<std::uint8_t>& out) {
  const std::size_t begin = out.size();
  out.resize(begin + static_cast<std::size_t>(n_genes) * sizeof(float));
  for (std::size_t k = 0; k < row.indices.size(); ++k)
    std::memcpy(out.data() + begin + static_cast<std::size_t>(row.indices[k]) * sizeof(float),
                values + k * sizeof(float), sizeof(float));
}

// A dense row has no explicit zeros.
std::uint32_t count_nonzero(const std::byte* values, std::size_t n) {
  std::uint32_t count = 0;
  for (std::size_t k = 0; k < n; ++k) {
    float value;
    std::memcpy(&value, values + k * sizeof(float), sizeof(float));
    count += value != 0.0F;
  }
  return count;
}

std::uint32_t count_not_finite(const std::byte* values, std::size_t n, DType dtype) {
  if (!is_float(dtype)) return 0;
  return dispatch_dtype(dtype, [&](auto zero) -> std::uint32_t {
    using T = decltype(zero);
    std::uint32_t count = 0;
    if constexpr (std::is_floating_point_v<T>) {
      for (std::size_t i = 0; i < n; ++i) {
        T value;
        std::memcpy(&value, values + i * sizeof(T), sizeof(T));
        // Only NaN and infinities differ from themselves after taking them away.
        count += value - value != T{};
      }
    }
    return count;
  });
}

// Counts, scaled or not, are finite.
bool holds_counts(std::uint8_t first_byte_of_record) {
  const auto kind = static_cast<record::ValueKind>(first_byte_of_record & record::kKindMask);
  return kind <= record::ValueKind::kDivided;
}

void pack_row_bytes(std::span<const std::int32_t> indices, const std::byte* values,
                    const RowEncoding& encoding, std::int64_t row, std::vector<std::uint8_t>& out) {
  const std::size_t begin = out.size();
  try {
    encode_record(indices, values, encoding.value_dtype, out);
    const std::uint32_t hash = hash_record(std::span(out).subspan(begin));
    out.resize(out.size() + kRecordChecksumBytes);
    std::memcpy(out.data() + out.size() - kRecordChecksumBytes, &hash, kRecordChecksumBytes);
  } catch (const Error&) {
    check_indices(indices, encoding.n_genes, row);  // names the row
    throw;
  }
}

// Room for all rows once a few are there, as if the others took as much for each entry: growing
// step by step copies what is there again and again.
void reserve_like_first(const CsrSlice& rows, std::size_t n_done, std::vector<std::uint8_t>& out) {
  constexpr double kSlack = 1.125;
  const auto entries = static_cast<double>(rows.indptr[n_done] - rows.indptr.front());
  if (entries == 0) return;
  const auto all = static_cast<double>(rows.indptr.back() - rows.indptr.front());
  const double bytes = static_cast<double>(out.size()) / entries * all;
  // Memory that was used before and is about as large will do.
  if (bytes <= static_cast<double>(out.capacity())) return;
  // Short rows say little of long ones.
  const double most = all * static_cast<double>(sizeof(std::int32_t) + dtype_bytes(rows.dtype));
  out.reserve(static_cast<std::size_t>(std::min(bytes * kSlack, most)));
}

}  // namespace

void EncodedRows::clear() {
  bytes.clear();
  lengths.clear();
  nnz.clear();
  not_finite.clear();
  row_library_sizes.clear();
}

EncodedRows encode_rows(const CsrSlice& rows, const RowEncoding& encoding, EncodedRows spare) {
  const bool dense = encoding.layout == Layout::kDense;
  if (dense && encoding.value_dtype != DType::kF32)
    throw_invalid("dense shards hold float32, not {}", dtype_name(encoding.value_dtype));
  const std::size_t width = dtype_bytes(rows.dtype);
  const auto* values = static_cast<const std::byte*>(rows.values);
  constexpr std::size_t kRowsMeasured = 4;
  EncodedRows encoded = std::move(spare);
  encoded.clear();
  Scratch scratch;
  const auto n_rows = static_cast<std::size_t>(rows.n_rows());
  encoded.lengths.reserve(n_rows);
  encoded.nnz.reserve(n_rows);
  encoded.not_finite.reserve(n_rows);
  for (std::size_t i = 0; i < n_rows; ++i) {
    const std::int64_t begin = rows.indptr[i];
    const auto n = static_cast<std::size_t>(rows.indptr[i + 1] - begin);
    Row row{{rows.indices + begin, n}, values + static_cast<std::size_t>(begin) * width};
    const auto number = static_cast<std::int64_t>(i);
    if (!encoding.gene_position.empty()) row = place_genes(row, width, encoding, number, scratch);
    // Packing checks that indices rise: here the last one is enough.
    const bool is_inside = row.indices.empty() || row.indices.back() < encoding.n_genes;
    if (dense || !is_inside) check_indices(row.indices, encoding.n_genes, number);
    if (static_cast<std::int64_t>(row.indices.size()) > kMaxRowNnz)
      throw Error(ErrorKind::kUnsupported,
                  fmt::format("a cell has more non-zeros than a shard can hold: {} in row {} of "
                              "the slice, at most {} fit",
                              row.indices.size(), i, kMaxRowNnz));
    const std::byte* stored = values_as(encoding.value_dtype, rows.dtype, row, number, scratch);
    const std::size_t size_before = encoded.bytes.size();
    if (dense)
      append_dense(row, stored, encoding.n_genes, encoded.bytes);
    else
      pack_row_bytes(row.indices, stored, encoding, number, encoded.bytes);
    encoded.lengths.push_back(static_cast<std::uint32_t>(encoded.bytes.size() - size_before));
    encoded.nnz.push_back(dense ? count_nonzero(stored, row.indices.size())
                                : static_cast<std::uint32_t>(row.indices.size()));
    const bool is_finite = !dense && holds_counts(encoded.bytes[size_before]);
    encoded.not_finite.push_back(
        is_finite ? 0 : count_not_finite(stored, row.indices.size(), encoding.value_dtype));
    if (i + 1 == kRowsMeasured) reserve_like_first(rows, i + 1, encoded.bytes);
  }
  return encoded;
}

}  // namespace cellfeed::format::shard
