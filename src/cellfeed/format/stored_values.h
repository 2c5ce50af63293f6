// Values of rows as they are stored, converted to those of a batch; what rows of every kind share.
// Thread-safe: pure functions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/chunked/ranges.h"
#include "cellfeed/format/row_copy.h"
#include "cellfeed/format/stored_number.h"

namespace cellfeed::format {

using chunked::RowPiece;

inline constexpr std::int64_t kNoPosition = -1;

// Between types that rows are stored in and those of batches: float32, float64, int32 and int64.
struct ValueConversion {
  DType stored = DType::kF32;
  DType out = DType::kF32;
  bool may_round = false;
};

// Converts the values of a piece; the position of the first that does not fit, or kNoPosition.
// upcoming: bytes to ask for meanwhile. past_caches: with non-temporal stores, where values are
// only copied. REQUIRES: numbers of this machine, in `from`; room for as many in `to`.
std::int64_t convert_values(const ValueConversion& conversion, const RowPiece& from, void* to,
                            UpcomingBytes upcoming, bool past_caches);

// Element i, for messages.
std::string value_text(DType dtype, const std::byte* data, std::int64_t i);

// The elements of a row as numbers of this machine, one piece. Scratch is reused row after row.
RowPiece join_native(std::span<const RowPiece> pieces, const StoredNumber& number,
                     std::vector<std::byte>& scratch);

// Unaligned.
template <typename T>
T load(const std::byte* data, std::int64_t i) {
  T value;
  std::memcpy(&value, data + i * static_cast<std::int64_t>(sizeof(T)), sizeof(T));
  return value;
}

// HDF5 booleans are one byte; any but 0 is true.
template <typename T>
auto load_value(const std::byte* data, std::int64_t i) {
  if constexpr (std::is_same_v<T, bool>)
    return static_cast<std::uint8_t>(load<std::uint8_t>(data, i) != 0);
  else
    return load<T>(data, i);
}

// Calls fn(From{}, To{}) for the stored and the output type.
template <typename Fn>
auto dispatch_pair(DType from, DType to, Fn&& fn) {
  return dispatch_dtype(from, [&](auto stored) {
    switch (to) {
      case DType::kF32:
        return fn(stored, float{});
      case DType::kF64:
        return fn(stored, double{});
      case DType::kI32:
        return fn(stored, std::int32_t{});
      case DType::kI64:
        return fn(stored, std::int64_t{});
      default:
        throw Error(ErrorKind::kInternal, "rows decode to float32, float64, int32 or int64");
    }
  });
}

}  // namespace cellfeed::format
