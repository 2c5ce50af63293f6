// One cell as one packed record (docs/format/shard.md, "Record"). Encoding and decoding are pure functions of bytes.
// Thread-safe: no state is shared.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace cellfeed::format::shard {

// Bytes behind a record that decode_record may read (never use): files and buffers keep that many.
inline constexpr std::size_t kRecordPaddingBytes = 64;

// Appends the record of one row to out; lossless for every dtype and every bit pattern (NaN, -0.0, explicit zeros).
// indices: sorted, unique, < 2^31. values: indices.size() elements of dtype.
void encode_record(std::span<const std::int32_t> indices, const void* values, DType dtype,
                   std::vector<std::uint8_t>& out);

// Decodes a record of nnz entries of stored type `stored` into indices[0..nnz) and values[0..nnz) of type `out`.
// May write up to matrix::kPaddingBytes past the ends when `may_overrun` says the room is there (the caller decodes the next row later, in order).
// Throws kCorruptData when the bytes are not a record of that size, never reading outside bytes + padding nor writing
// an index >= n_cols; kPrecision when a value does not fit `out` and casting is kExact.
void decode_record(std::span<const std::uint8_t> bytes, std::int64_t nnz, std::int64_t n_cols,
                   DType stored, DType out, Casting casting, std::int32_t* indices, void* values);

}  // namespace cellfeed::format::shard
