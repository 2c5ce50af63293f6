#include "cellfeed/convert/cache/packed_fetch.h"

#include <array>
#include <cstring>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/row_reader.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using format::CsrSink;

// What is decoded is exactly what is stored, so that it may be kept as such. Floats of another
// width are not: NaN may lose bits.
bool holds_stored_values(const CsrSink& sink, DType stored) {
  return sink.dtype == exact_decode_dtype(stored) ||
         (is_integer(stored) && sink.casting == Casting::kExact);
}

void append(shard::EncodedRows& all, const shard::EncodedRows& rows) {
  all.bytes.insert(all.bytes.end(), rows.bytes.begin(), rows.bytes.end());
  all.lengths.insert(all.lengths.end(), rows.lengths.begin(), rows.lengths.end());
  all.nnz.insert(all.nnz.end(), rows.nnz.begin(), rows.nnz.end());
}

// These rows of the sink as records.
shard::EncodedRows encode_rows(const CsrSink& sink, std::span<const std::int64_t> rows,
                               const shard::RowEncoding& encoding, shard::EncodedRows spare = {}) {
  shard::EncodedRows encoded;
  std::vector<std::int64_t> indptr;
  for (std::size_t i = 0; i < rows.size();) {
    // Those that lie back to back.
    indptr.assign(1, sink.place[rows[i]]);
    do {
      indptr.push_back(indptr.back() + sink.counts[rows[i]]);
    } while (++i < rows.size() && sink.place[rows[i]] == indptr.back());
    auto run = shard::encode_rows(
        {.indptr = indptr, .indices = sink.indices, .values = sink.values, .dtype = sink.dtype},
        encoding, std::exchange(spare, {}));
    if (run.n_rows() == std::ssize(rows)) return run;
    append(encoded, run);
  }
  return encoded;
}

}  // namespace

void PackedFetch::decode_part(const FetchedPart& part, std::int64_t first, std::int64_t last,
                              const CsrSink& sink) const {
  if (part.number == kOfSource) {
    CsrSink own = sink;
    own.past_caches = false;  // read again at once
    part.rows->decode(first, last, own);
    return keep(part, first, last, own);
  }
  try {
    return part.rows->decode(first, last, sink);
  } catch (const Error&) {
    // Which row it was is found below.
  }
  for (std::int64_t i = first; i < last; ++i) {
    try {
      part.rows->decode(i, i + 1, sink);
    } catch (const Error& error) {
      // The source says which value does not fit, by its own row.
      if (error.kind() != ErrorKind::kPrecision) log_.drop(segments_[i]);
      decode_row_from_source(part, i, sink);
    }
  }
}

void PackedFetch::keep(const FetchedPart& part, std::int64_t first, std::int64_t last,
                       const CsrSink& sink) const {
  std::vector<std::int64_t> wanted;  // of the part
  for (std::int64_t i = first; i < last; ++i)
    if (log_.claim(rows_[part.places[i]])) wanted.push_back(i);
  if (wanted.empty()) return;
  const format::StoreInfo& info = source_.info();
  const shard::RowEncoding encoding{.n_genes = info.n_cols, .value_dtype = info.value_dtype};
  std::vector<std::uint64_t> rows;
  for (const std::int64_t i : wanted)
    rows.push_back(static_cast<std::uint64_t>(rows_[part.places[i]]));
  try {
    shard::EncodedRows encoded;
    if (holds_stored_values(sink, info.value_dtype)) {
      encoded = encode_rows(sink, wanted, encoding, log_.spare());
    } else {
      encoded = encode_again(part, wanted, encoding);
    }
    log_.keep(std::move(rows), std::move(encoded));
  } catch (const Error& error) {
    // Sums of entries that occur more than once need not fit the type of the matrix.
    log_.give_up(rows, true);
  }
}

shard::EncodedRows PackedFetch::encode_again(const FetchedPart& part,
                                             std::span<const std::int64_t> wanted,
                                             const shard::RowEncoding& encoding) const {
  std::call_once(sized_, [&] {
    sizes_.resize(part.places.size());
    part.rows->sizes(sizes_);
  });
  thread_local CsrPiece piece;
  piece.dtype = exact_decode_dtype(encoding.value_dtype);
  const std::vector<std::int64_t> place(1, 0);
  std::int32_t count = 0;
  shard::EncodedRows encoded;
  for (const std::int64_t i : wanted) {
    piece.indices.reset(static_cast<std::size_t>(sizes_[i]));
    piece.values.reset(static_cast<std::size_t>(sizes_[i]) * dtype_bytes(piece.dtype));
    // As if the rows began with this one.
    part.rows->decode(i, i + 1,
                      {.place = place.data() - i,
                       .indices = piece.indices.data(),
                       .values = piece.values.data(),
                       .dtype = piece.dtype,
                       .counts = &count - i});
    const CsrSink row{.place = place.data(),
                      .indices = piece.indices.data(),
                      .values = piece.values.data(),
                      .dtype = piece.dtype,
                      .counts = &count};
    append(encoded, encode_rows(row, std::array<std::int64_t, 1>{0}, encoding));
  }
  return encoded;
}

void PackedFetch::decode_row_from_source(const FetchedPart& part, std::int64_t i,
                                         const CsrSink& sink) const {
  const std::int64_t row = rows_[part.places[i]];
  CsrPiece piece;
  read_rows(source_, {&row, 1}, sink.dtype, sink.casting, piece);
  std::vector<std::int64_t> room(part.places.size());
  part.rows->sizes(room);
  const std::int64_t n = piece.nnz();
  if (n > room[i])
    throw_error(ErrorKind::kCorruptData, log_.place().folder,
                "the rows kept of a file are damaged: row {} has {} entries, and {} are kept; "
                "delete the folder",
                row, n, room[i]);
  const auto width = static_cast<std::int64_t>(dtype_bytes(sink.dtype));
  std::memcpy(sink.indices + sink.place[i], piece.indices.data(),
              static_cast<std::size_t>(n) * sizeof(std::int32_t));
  std::memcpy(static_cast<std::byte*>(sink.values) + sink.place[i] * width, piece.values.data(),
              static_cast<std::size_t>(n * width));
  sink.counts[i] = static_cast<std::int32_t>(n);
}

}  // namespace cellfeed::convert
