// DenseRowDecoder: rows copied, converted, gathered by column, or with their zeros left out.
#include "cellfeed/format/dense_row.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>
#include <utility>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/dense_row_kernels.h"

namespace cellfeed::format {
namespace {

// Of the row to come so much is asked for; what follows in it the processor finds by itself.
constexpr std::int64_t kUpcomingBytes = 16 << 10;

std::size_t n_words(std::int64_t n) { return static_cast<std::size_t>(n + 63) / 64; }

// Calls fn(Bits{}) with the unsigned type of so many bytes: elements are moved as they are.
template <typename Fn>
void dispatch_width(std::int64_t bytes, Fn&& fn) {
  switch (bytes) {
    case 1:
      return fn(std::uint8_t{});
    case 2:
      return fn(std::uint16_t{});
    case 4:
      return fn(std::uint32_t{});
    default:
      return fn(std::uint64_t{});
  }
}

// Moves the elements whose bits are set, and lists their columns.
template <typename Bits>
std::byte* take_marked(const RowPiece& piece, std::int64_t first_column,
                       std::span<const std::uint64_t> words, std::int32_t* columns,
                       std::byte* elements) {
  for (std::size_t w = 0; w < words.size(); ++w)
    for (std::uint64_t marks = words[w]; marks != 0; marks &= marks - 1) {
      const std::int64_t i = static_cast<std::int64_t>(w) * 64 + std::countr_zero(marks);
      *columns++ = static_cast<std::int32_t>(first_column + i);
      std::memcpy(elements, piece.data + i * static_cast<std::int64_t>(sizeof(Bits)), sizeof(Bits));
      elements += sizeof(Bits);
    }
  return elements;
}

// out[j] = row[columns[j]], or 0 where that is -1.
template <typename Bits>
void gather(const std::byte* row, std::span<const std::int32_t> columns, std::byte* out) {
  for (std::size_t j = 0; j < columns.size(); ++j) {
    const Bits element = columns[j] < 0 ? Bits{} : load<Bits>(row, columns[j]);
    std::memcpy(out + j * sizeof(Bits), &element, sizeof(Bits));
  }
}

}  // namespace

DenseRowDecoder::DenseRowDecoder(std::string path, std::string layer, std::int64_t n_cols,
                                 StoredNumber value)
    : path_(std::move(path)), layer_(std::move(layer)), n_cols_(n_cols), value_(value) {
  if (n_cols > std::numeric_limits<std::int32_t>::max())
    throw_error(ErrorKind::kUnsupported, path_,
                "more than 2^31-1 columns are not readable ({}): {}", layer_, n_cols);
}

std::int64_t DenseRowDecoder::count_entries(std::span<const RowPiece> pieces) const {
  thread_local std::vector<std::uint64_t> words;
  std::int64_t count = 0;
  for (const RowPiece& piece : pieces) {
    words.resize(std::max(words.size(), n_words(piece.length)));
    count += mark_entries(piece.data, static_cast<std::size_t>(value_.bytes),
                          static_cast<std::size_t>(piece.length), words.data());
  }
  return count;
}

void DenseRowDecoder::convert(std::int64_t row, const RowPiece& native, DType out, Casting casting,
                              std::byte* to, UpcomingBytes upcoming, bool past_caches) const {
  const bool rounds = may_round(casting, value_.dtype, out);
  const std::int64_t misfit =
      convert_values({value_.dtype, out, rounds}, native, to, upcoming, past_caches);
  if (misfit != kNoPosition)
    throw_error(ErrorKind::kPrecision, path_, "a {} value of {} {}: row {}, value {}",
                dtype_name(value_.dtype), layer_,
                misfit_text(casting, value_.dtype, out, is_obsm(layer_)), row,
                value_text(value_.dtype, native.data, misfit));
}

std::int32_t DenseRowDecoder::decode(std::int64_t row, std::span<const RowPiece> pieces,
                                     const CsrTarget& target, std::int64_t place,
                                     std::int64_t size) const {
  thread_local std::vector<std::uint64_t> words;
  thread_local std::vector<std::byte> stored, native;
  stored.resize(static_cast<std::size_t>(size * value_.bytes));
  std::byte* end = stored.data();
  std::int64_t column = 0, count = 0;
  for (const RowPiece& piece : pieces) {
    words.resize(n_words(piece.length));
    const std::int64_t begin = count;
    count += mark_entries(piece.data, static_cast<std::size_t>(value_.bytes),
                          static_cast<std::size_t>(piece.length), words.data());
    if (count > size)
      throw_error(ErrorKind::kCorruptData, path_, "the file changed while it was read: {}, row {}",
                  layer_, row);
    dispatch_width(value_.bytes, [&](auto bits) {
      end = take_marked<decltype(bits)>(piece, column, words, target.indices + place + begin, end);
    });
    column += piece.length;
  }
  RowPiece entries{stored.data(), count};
  if (!value_.is_native()) entries = join_native({&entries, 1}, value_, native);
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  convert(row, entries, target.dtype, target.casting,
          static_cast<std::byte*>(target.values) + place * out_bytes, {}, target.past_caches);
  return static_cast<std::int32_t>(count);
}

void DenseRowDecoder::decode(std::int64_t row, std::span<const RowPiece> pieces,
                             const DenseTarget& target, std::int64_t place,
                             std::span<const RowPiece> next) const {
  thread_local std::vector<std::byte> native, converted;
  const auto out_bytes = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  std::byte* out = static_cast<std::byte*>(target.values) + place * out_bytes;
  UpcomingBytes upcoming;
  if (!next.empty())
    upcoming = {next[0].data, std::min(next[0].length * value_.bytes, kUpcomingBytes)};
  const bool selects = !target.columns.empty();
  RowPiece joined;
  if (!value_.is_native() || (selects && pieces.size() > 1)) {
    joined = join_native(pieces, value_, native);
    pieces = {&joined, 1};
  }
  if (selects && (pieces.empty() || value_.dtype != target.dtype)) {
    converted.resize(static_cast<std::size_t>(n_cols_ * out_bytes));
    for (const RowPiece& piece : pieces)
      convert(row, piece, target.dtype, target.casting, converted.data(), upcoming, false);
    joined = {converted.data(), n_cols_};
    pieces = {&joined, 1};
  }
  if (selects) {
    ask_for(upcoming);
    return dispatch_width(
        out_bytes, [&](auto bits) { gather<decltype(bits)>(pieces[0].data, target.columns, out); });
  }
  for (const RowPiece& piece : pieces) {
    convert(row, piece, target.dtype, target.casting, out, std::exchange(upcoming, {}),
            target.past_caches);
    out += piece.length * out_bytes;
  }
}

}  // namespace cellfeed::format
