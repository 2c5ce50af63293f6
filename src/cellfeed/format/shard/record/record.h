// One cell as one packed record (docs/format/record.md). Encoding and decoding are pure functions
// of bytes. Thread-safe: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace cellfeed::format::shard {

// Bytes behind a record that decode_record may read (never use): files and buffers keep that many.
inline constexpr std::size_t kRecordPaddingBytes = 64;

// Whether up to 64 bytes behind indices[nnz) and values[nnz) may be overwritten with garbage.
enum class OverrunRoom { kNone, k64Bytes };

// Appends the record of one row to out; lossless for every dtype and every bit pattern (NaN, -0.0,
// explicit zeros). indices: sorted, unique, 0 <= index < 2^31 - 1. values: indices.size() elements
// of dtype. Throws kInvalidArgument when indices are not so, leaving out as it was.
void encode_record(std::span<const std::int32_t> indices, const void* values, DType dtype,
                   std::vector<std::uint8_t>& out);

// Decodes a record of nnz entries of stored type `stored` into indices[0..nnz) and values[0..nnz)
// of type `out` (float32, float64, int32 or int64). Throws kCorruptData when the bytes are not a
// record of that size, never reading outside bytes + padding nor accepting an index >= n_cols;
// kPrecision when a value does not fit `out` as far as casting goes. After an exception the outputs
// hold garbage.
void decode_record(std::span<const std::uint8_t> bytes, std::int64_t nnz, std::int64_t n_cols,
                   DType stored, DType out, Casting casting, std::int32_t* indices, void* values,
                   OverrunRoom room = OverrunRoom::kNone);

// Where one record lies and how many entries it holds.
struct RecordView {
  const std::uint8_t* bytes = nullptr;
  std::size_t length = 0;
  std::int64_t nnz = 0;
};

// Decodes records one behind the other into one CSR (indices and values hold the sum of nnz),
// asking memory for the records ahead. Errors as decode_record.
void decode_records(std::span<const RecordView> records, std::int64_t n_cols, DType stored,
                    DType out, Casting casting, std::int32_t* indices, void* values,
                    OverrunRoom room = OverrunRoom::kNone);

// Asks memory for a record that will be decoded soon.
inline void prefetch_record(const std::uint8_t* bytes, std::size_t length) {
  for (std::size_t at = 0; at < length; at += 64) __builtin_prefetch(bytes + at);
}

}  // namespace cellfeed::format::shard
