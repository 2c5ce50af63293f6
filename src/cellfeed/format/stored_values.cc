// Values as stored, to those of a batch.
#include "cellfeed/format/stored_values.h"

#include <fmt/format.h>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/format/csr_row_kernels.h"

namespace cellfeed::format {
namespace {

// Converts n values where a kernel does that, exactly or as far as they may be rounded.
template <typename From, typename To>
bool has_converted(const std::byte* data, std::int64_t n, To* out, bool may_round) {
  const auto count = static_cast<std::size_t>(n);
  if constexpr (!std::is_same_v<To, float>)
    return false;
  else if constexpr (std::is_same_v<From, double>)
    return may_round ? round_f64_to_f32(data, count, out) : convert_f64_to_f32(data, count, out);
  else if constexpr (std::is_same_v<From, std::int32_t>)
    return convert_i32_to_f32(data, count, out);
  else if constexpr (std::is_same_v<From, std::int64_t>)
    return convert_i64_to_f32(data, count, out);
  else
    return false;
}

// Converts n values; the position of the first that does not fit, or kNoPosition.
template <typename From, typename To>
std::int64_t copy_values(const std::byte* data, std::int64_t n, To* out, bool may_round,
                         UpcomingBytes upcoming, bool past_caches) {
  if constexpr (std::is_same_v<From, To>) {
    copy_bytes(data, n * static_cast<std::int64_t>(sizeof(To)), reinterpret_cast<std::byte*>(out),
               upcoming, past_caches);
    return kNoPosition;
  } else {
    ask_for(upcoming);
    if (has_converted<From>(data, n, out, may_round)) return kNoPosition;
    Fit fit;
    for (std::int64_t i = 0; i < n; ++i)
      out[i] = convert_value<To>(load_value<From>(data, i), &fit);
    if (fit.allows(may_round)) return kNoPosition;
    for (std::int64_t i = 0; i < n; ++i) {
      Fit one;
      (void)convert_value<To>(load_value<From>(data, i), &one);
      if (!one.allows(may_round)) return i;
    }
    return kNoPosition;
  }
}

}  // namespace

std::int64_t convert_values(const ValueConversion& conversion, const RowPiece& from, void* to,
                            UpcomingBytes upcoming, bool past_caches) {
  return dispatch_pair(conversion.stored, conversion.out, [&](auto stored, auto out) {
    return copy_values<decltype(stored)>(from.data, from.length, static_cast<decltype(out)*>(to),
                                         conversion.may_round, upcoming, past_caches);
  });
}

std::string value_text(DType dtype, const std::byte* data, std::int64_t i) {
  return dispatch_dtype(
      dtype, [&](auto zero) { return fmt::format("{}", load_value<decltype(zero)>(data, i)); });
}

RowPiece join_native(std::span<const RowPiece> pieces, const StoredNumber& number,
                     std::vector<std::byte>& scratch) {
  const auto width = static_cast<std::int64_t>(dtype_bytes(number.dtype));
  std::int64_t n = 0;
  for (const RowPiece& piece : pieces) n += piece.length;
  scratch.resize(static_cast<std::size_t>(n * width));
  std::byte* out = scratch.data();
  for (const RowPiece& piece : pieces) {
    number.to_native({piece.data, static_cast<std::size_t>(piece.length * number.bytes)}, out);
    out += piece.length * width;
  }
  return {scratch.data(), n};
}

}  // namespace cellfeed::format
