#include "cellfeed/convert/cache/packed_fetch.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using format::CsrTarget;
using format::DenseTarget;

// Of rows that are decoded once more, so many are encoded together.
constexpr std::int64_t kEntriesAtOnce = 32 << 10;

void append(shard::EncodedRows& all, const shard::EncodedRows& rows) {
  all.bytes.insert(all.bytes.end(), rows.bytes.begin(), rows.bytes.end());
  all.lengths.insert(all.lengths.end(), rows.lengths.begin(), rows.lengths.end());
  all.nnz.insert(all.nnz.end(), rows.nnz.begin(), rows.nnz.end());
}

// What is decoded is exactly what is stored, so that it may be kept as such. Floats of another
// width are not: NaN may lose bits.
template <typename Sink>
bool holds_stored_values(const Sink& target, DType stored) {
  return target.dtype == exact_decode_dtype(stored) ||
         (is_integer(stored) && target.casting == Casting::kExact);
}

// For row i alone, which goes to `place` in the piece, as if the rows began with it.
CsrTarget target_of_row(std::int64_t i, const std::int64_t& place, CsrPiece& piece,
                        std::int32_t& count) {
  return {.place = &place - i,
          .indices = piece.indices.data(),
          .values = piece.values.data(),
          .dtype = piece.dtype,
          .counts = &count - i};
}

// Of these rows, one after the other, what decode(row, target) gives, as records; sizes: the most
// entries of each.
template <typename Decode>
shard::EncodedRows encode_each(std::span<const std::int64_t> rows,
                               std::span<const std::int64_t> sizes, DType dtype,
                               const shard::RowEncoding& encoding, shard::EncodedRows spare,
                               const Decode& decode) {
  thread_local CsrPiece piece;
  thread_local shard::EncodedRows run;
  piece.dtype = dtype;
  shard::EncodedRows encoded = std::move(spare);
  encoded.clear();
  for (std::size_t done = 0; done < rows.size();) {
    std::int64_t room = 0;
    std::size_t end = done;
    while (end < rows.size() && (end == done || room + sizes[rows[end]] <= kEntriesAtOnce))
      room += sizes[rows[end++]];
    piece.indices.reset(static_cast<std::size_t>(room));
    piece.values.reset(static_cast<std::size_t>(room) * dtype_bytes(dtype));
    // They lie back to back only where each is decoded behind the last.
    piece.indptr.assign(1, 0);
    for (; done < end; ++done) {
      const std::int64_t place = piece.indptr.back(), i = rows[done];
      std::int32_t count = 0;
      decode(i, target_of_row(i, place, piece, count));
      piece.indptr.push_back(place + count);
    }
    run = shard::encode_rows({.indptr = piece.indptr,
                              .indices = piece.indices.data(),
                              .values = piece.values.data(),
                              .dtype = dtype},
                             encoding, std::move(run));
    if (run.n_rows() == std::ssize(rows)) return std::exchange(run, std::move(encoded));
    append(encoded, run);
  }
  return encoded;
}

// These rows of the target as records.
shard::EncodedRows encode_rows(const CsrTarget& target, std::span<const std::int64_t> rows,
                               const shard::RowEncoding& encoding, shard::EncodedRows spare) {
  shard::EncodedRows encoded;
  std::vector<std::int64_t> indptr;
  for (std::size_t i = 0; i < rows.size();) {
    // Those that lie back to back.
    indptr.assign(1, target.place[rows[i]]);
    do {
      indptr.push_back(indptr.back() + target.counts[rows[i]]);
    } while (++i < rows.size() && target.place[rows[i]] == indptr.back());
    auto run = shard::encode_rows({.indptr = indptr,
                                   .indices = target.indices,
                                   .values = target.values,
                                   .dtype = target.dtype},
                                  encoding, std::exchange(spare, {}));
    if (run.n_rows() == std::ssize(rows)) return run;
    append(encoded, run);
  }
  return encoded;
}

}  // namespace

void PackedFetch::decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                              const CsrTarget& target) const {
  if (part.number == kOfSource) {
    CsrTarget own = target;
    own.past_caches = false;  // read again at once
    part.rows->decode(first, last, own);
    return keep(part, first, last, [&](const Claimed& rows) {
      if (!holds_stored_values(own, rows.encoding.value_dtype)) return encode_again(part, rows);
      return encode_rows(own, rows.of_part, rows.encoding, log_.spare());
    });
  }
  try {
    return part.rows->decode(first, last, target);
  } catch (const Error&) {
    // Which row it was is found below.
  }
  for (std::int64_t i = first; i < last; ++i) {
    try {
      part.rows->decode(i, i + 1, target);
    } catch (const Error& error) {
      // The source says which value does not fit, by its own row.
      if (error.kind() != ErrorKind::kPrecision) log_.drop(segments_[i]);
      decode_row_from_source(part, i, target);
    }
  }
}

bool PackedFetch::is_dense() const {
  return std::ranges::any_of(parts(), [](const FetchedPart& part) {
    return part.number == kOfSource && part.rows->is_dense();
  });
}

void PackedFetch::decode_part_dense(const FetchedPart& part, std::int64_t first, std::int64_t last,
                                    const DenseTarget& target) const {
  if (part.number == kOfSource) {
    DenseTarget own = target;
    own.past_caches = false;  // read again at once
    part.rows->decode_dense(first, last, own);
    return keep(part, first, last, [&](const Claimed& rows) {
      const bool has_all_columns = own.columns.empty();
      if (!has_all_columns || !holds_stored_values(own, rows.encoding.value_dtype))
        return encode_again(part, rows);
      return encode_dense(part, rows, own);
    });
  }
  thread_local CsrPiece piece;
  thread_local matrix::Buffer<std::byte> row;
  piece.dtype = target.dtype;
  const format::DenseRowDecoder decoder = decoder_of(target);
  const std::size_t width = dtype_bytes(target.dtype);
  const auto n_cols = static_cast<std::size_t>(source_.info().n_cols);
  row.reset(n_cols * width);
  const std::int64_t place = 0;
  for (std::int64_t i = first; i < last; ++i) {
    const auto size = static_cast<std::size_t>(sizes_of(part)[i]);
    piece.indices.reset(size);
    piece.values.reset(size * width);
    std::int32_t count = 0;
    CsrTarget entries = target_of_row(i, place, piece, count);
    entries.casting = target.casting;
    decode_part(part, i, i + 1, entries);
    transform::scatter_row({piece.indices.data(), static_cast<std::size_t>(count)},
                           piece.values.data(), width, row.data(), n_cols,
                           transform::RowStores::kCached);
    const format::RowPiece values{row.data(), source_.info().n_cols};
    decoder.decode(rows_[part.places[i]], {&values, 1}, target, target.place[i], {});
  }
  format::publish_row_copies(target.past_caches);
}

// Of rows as the target has them, all columns.
format::DenseRowDecoder PackedFetch::decoder_of(const DenseTarget& target) const {
  const format::StoreInfo& info = source_.info();
  return {info.path, info.layer, info.n_cols, target.dtype};
}

const std::vector<std::int64_t>& PackedFetch::sizes_of(const FetchedPart& part) const {
  Sizes& sizes = sizes_[static_cast<std::size_t>(part.number)];
  std::call_once(sizes.are_set, [&] {
    sizes.of_rows.resize(part.places.size());
    part.rows->sizes(sizes.of_rows);
  });
  return sizes.of_rows;
}

void PackedFetch::keep(const FetchedPart& part, std::int64_t first, std::int64_t last,
                       const std::function<shard::EncodedRows(const Claimed&)>& encode) const {
  const format::StoreInfo& info = source_.info();
  Claimed claimed{.of_part = {},
                  .encoding = {.n_genes = info.n_cols, .value_dtype = info.value_dtype}};
  std::vector<std::uint64_t> rows;
  for (std::int64_t i = first; i < last; ++i) {
    const std::int64_t row = rows_[part.places[i]];
    if (!log_.claim(row)) continue;
    claimed.of_part.push_back(i);
    rows.push_back(static_cast<std::uint64_t>(row));
  }
  if (rows.empty()) return;
  try {
    shard::EncodedRows encoded = encode(claimed);
    log_.keep(std::move(rows), std::move(encoded));
  } catch (const Error& error) {
    // Sums of entries that occur more than once need not fit the type of the matrix.
    log_.give_up(rows, true);
  }
}

shard::EncodedRows PackedFetch::encode_again(const FetchedPart& part, const Claimed& rows) const {
  return encode_each(rows.of_part, sizes_of(part), exact_decode_dtype(rows.encoding.value_dtype),
                     rows.encoding, log_.spare(), [&](std::int64_t i, const CsrTarget& target) {
                       part.rows->decode(i, i + 1, target);
                     });
}

// From where the rows are whole, and still in the caches.
shard::EncodedRows PackedFetch::encode_dense(const FetchedPart& part, const Claimed& rows,
                                             const DenseTarget& target) const {
  const format::DenseRowDecoder decoder = decoder_of(target);
  const std::vector<std::int64_t>& sizes = sizes_of(part);
  const auto* const values = static_cast<const std::byte*>(target.values);
  const auto width = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  const auto decode = [&](std::int64_t i, const CsrTarget& to) {
    const format::RowPiece row{values + target.place[i] * width, source_.info().n_cols};
    to.counts[i] = decoder.decode(rows_[part.places[i]], {&row, 1}, to, to.place[i], sizes[i]);
  };
  return encode_each(rows.of_part, sizes, target.dtype, rows.encoding, log_.spare(), decode);
}

void PackedFetch::decode_row_from_source(const FetchedPart& part, std::int64_t i,
                                         const CsrTarget& target) const {
  const std::int64_t row = rows_[part.places[i]];
  CsrPiece piece;
  read_rows(source_, {&row, 1}, target.dtype, target.casting, piece);
  const std::int64_t n = piece.nnz(), room = sizes_of(part)[i];
  if (n > room)
    throw_error(ErrorKind::kCorruptData, log_.place().folder(),
                "the rows kept of a file are damaged: row {} has {} entries, and {} are kept; "
                "delete the folder",
                row, n, room);
  const auto width = static_cast<std::int64_t>(dtype_bytes(target.dtype));
  std::memcpy(target.indices + target.place[i], piece.indices.data(),
              static_cast<std::size_t>(n) * sizeof(std::int32_t));
  std::memcpy(static_cast<std::byte*>(target.values) + target.place[i] * width, piece.values.data(),
              static_cast<std::size_t>(n * width));
  target.counts[i] = static_cast<std::int32_t>(n);
}

}  // namespace cellfeed::convert
