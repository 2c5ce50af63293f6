#include "cellfeed/format/parquet/value_copy.h"

#include <arrow/api.h>

#include <algorithm>
#include <cstring>
#include <limits>
#include <span>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/base/error.h"
#include "cellfeed/format/parquet/column_types.h"
#include "cellfeed/format/stored_number.h"

namespace cellfeed::format::parquet_table {
namespace {

// The elements of the array's buffer from `begin` on. Its items are not looked at where it is
// empty.
template <typename T>
const T* elements(const arrow::Array& array, std::int64_t begin) {
  return array.data()->GetValues<T>(1) + begin;
}

template <typename From, typename To>
std::int64_t convert_all(const From* from, std::int64_t n, To* to) {
  bool is_exact = true;
  for (std::int64_t i = 0; i < n; ++i) to[i] = convert_value<To>(from[i], &is_exact);
  if (is_exact) return -1;
  for (std::int64_t i = 0; i < n; ++i) {
    bool fits = true;
    convert_value<To>(from[i], &fits);
    if (!fits) return i;
  }
  return -1;
}

template <typename From>
std::int64_t copy_as(const From* from, std::int64_t n, DType dtype, std::byte* out) {
  if (n == 0) return -1;
  if (dtype == dtype_of<From>()) {
    std::memcpy(out, from, static_cast<std::size_t>(n) * sizeof(From));
    return -1;
  }
  return dispatch_dtype(dtype, [&](auto zero) -> std::int64_t {
    using To = decltype(zero);
    if constexpr (std::is_same_v<To, bool>)
      throw Error(ErrorKind::kInternal, "matrices of Parquet tables hold no booleans");
    else
      return convert_all(from, n, reinterpret_cast<To*>(out));
  });
}

// float16, by way of float32.
std::int64_t copy_halves(const std::uint16_t* from, std::int64_t n, DType dtype, std::byte* out) {
  constexpr std::int64_t kStep = 256;
  StoredNumber half(DType::kF32);
  half.bytes = 2;
  float widened[kStep];
  for (std::int64_t i = 0; i < n; i += kStep) {
    const std::int64_t m = std::min(kStep, n - i);
    half.to_native(std::as_bytes(std::span(from + i, static_cast<std::size_t>(m))),
                   reinterpret_cast<std::byte*>(widened));
    const auto width = static_cast<std::int64_t>(dtype_bytes(dtype));
    const std::int64_t misfit = copy_as(widened, m, dtype, out + i * width);
    if (misfit >= 0) return i + misfit;
  }
  return -1;
}

}  // namespace

std::int64_t copy_values(const arrow::Array& array, std::int64_t begin, std::int64_t n, DType dtype,
                         std::byte* out) {
  if (n == 0) return -1;
  if (array.type_id() == arrow::Type::HALF_FLOAT)
    return copy_halves(elements<std::uint16_t>(array, begin), n, dtype, out);
  return dispatch_dtype(*number_dtype(*array.type()), [&](auto zero) -> std::int64_t {
    using From = decltype(zero);
    if constexpr (std::is_same_v<From, bool>)
      throw Error(ErrorKind::kInternal, "booleans are no values of a matrix");
    else
      return copy_as(elements<From>(array, begin), n, dtype, out);
  });
}

std::int64_t mark_missing(const arrow::Array& array, std::int64_t begin, std::int64_t n,
                          DType dtype, std::byte* out) {
  if (array.null_count() == 0) return -1;
  for (std::int64_t i = 0; i < n; ++i) {
    if (array.IsValid(begin + i)) continue;
    if (dtype == DType::kF32)
      reinterpret_cast<float*>(out)[i] = std::numeric_limits<float>::quiet_NaN();
    else if (dtype == DType::kF64)
      reinterpret_cast<double*>(out)[i] = std::numeric_limits<double>::quiet_NaN();
    else
      return i;
  }
  return -1;
}

std::string value_text(const arrow::Array& array, std::int64_t i) {
  const auto scalar = array.GetScalar(i);
  return scalar.ok() ? (*scalar)->ToString() : scalar.status().message();
}

}  // namespace cellfeed::format::parquet_table
