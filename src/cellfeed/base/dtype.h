// DType: the element types of stored and produced arrays, and dispatch from a run-time type to a
// template.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>

#include "cellfeed/base/error.h"

namespace cellfeed {

enum class DType : std::uint8_t { kBool, kU8, kI8, kU16, kI16, kU32, kI32, kU64, kI64, kF32, kF64 };

std::string_view dtype_name(DType dtype);      // numpy's names: "float32", "int64", "bool"
DType dtype_from_name(std::string_view name);  // throws kInvalidArgument naming the known ones
inline bool is_float(DType dtype) { return dtype == DType::kF32 || dtype == DType::kF64; }
inline bool is_integer(DType dtype) { return !is_float(dtype) && dtype != DType::kBool; }

template <typename T>
constexpr DType dtype_of() {
  if constexpr (std::is_same_v<T, bool>)
    return DType::kBool;
  else if constexpr (std::is_same_v<T, std::uint8_t>)
    return DType::kU8;
  else if constexpr (std::is_same_v<T, std::int8_t>)
    return DType::kI8;
  else if constexpr (std::is_same_v<T, std::uint16_t>)
    return DType::kU16;
  else if constexpr (std::is_same_v<T, std::int16_t>)
    return DType::kI16;
  else if constexpr (std::is_same_v<T, std::uint32_t>)
    return DType::kU32;
  else if constexpr (std::is_same_v<T, std::int32_t>)
    return DType::kI32;
  else if constexpr (std::is_same_v<T, std::uint64_t>)
    return DType::kU64;
  else if constexpr (std::is_same_v<T, std::int64_t>)
    return DType::kI64;
  else if constexpr (std::is_same_v<T, float>)
    return DType::kF32;
  else {
    static_assert(std::is_same_v<T, double>, "no DType for this type");
    return DType::kF64;
  }
}

// Calls fn(T{}) with the C++ type of dtype: one switch per block, never per value.
template <typename Fn>
decltype(auto) dispatch_dtype(DType dtype, Fn&& fn) {
  switch (dtype) {
    case DType::kBool:
      return fn(bool{});
    case DType::kU8:
      return fn(std::uint8_t{});
    case DType::kI8:
      return fn(std::int8_t{});
    case DType::kU16:
      return fn(std::uint16_t{});
    case DType::kI16:
      return fn(std::int16_t{});
    case DType::kU32:
      return fn(std::uint32_t{});
    case DType::kI32:
      return fn(std::int32_t{});
    case DType::kU64:
      return fn(std::uint64_t{});
    case DType::kI64:
      return fn(std::int64_t{});
    case DType::kF32:
      return fn(float{});
    case DType::kF64:
      return fn(double{});
  }
  throw Error(ErrorKind::kInternal, "unknown dtype");
}

// Inline: it is asked for in the loops over pieces of rows.
inline std::size_t dtype_bytes(DType dtype) {
  constexpr std::array<std::uint8_t, 11> kBytes{1, 1, 1, 2, 2, 4, 4, 8, 8, 4, 8};
  return kBytes[static_cast<std::size_t>(dtype)];
}
// REQUIRES: bytes is 1, 2, 4 or 8.
DType integer_dtype(std::size_t bytes, bool is_signed);

// Which stored values may be rounded to the nearest one of a batch's dtype. What is beyond its
// range, and fractions where integers are wanted, are always errors; NaN and infinities pass
// between floats.
enum class Casting {
  kExact,     // none
  kRound,     // floats: float64 to float32
  kSameKind,  // integers too, where floats are wanted: numpy's "same_kind" without its overflows
};

std::string_view casting_name(Casting casting);    // "exact", "round", "same_kind"
Casting casting_from_name(std::string_view name);  // throws kInvalidArgument naming the known ones
bool may_round(Casting casting, DType stored, DType out);
// Why a value does not become one of `out`, and what to ask for: "does not fit int32; pass ...".
std::string misfit_text(Casting casting, DType stored, DType out, bool is_dtype_fixed = false);

}  // namespace cellfeed
