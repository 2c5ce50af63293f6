// Byte orders and half precision.
#include "cellfeed/hdf5/number_order.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace cellfeed::hdf5 {
namespace {

static_assert(std::endian::native == std::endian::little);

float widen(std::uint16_t half) {
  const int exponent = (half >> 10) & 0x1f;
  const int mantissa = half & 0x3ff;
  float magnitude;
  if (exponent == 0x1f)
    magnitude = mantissa == 0 ? std::numeric_limits<float>::infinity()
                              : std::numeric_limits<float>::quiet_NaN();
  else if (exponent == 0)
    magnitude = std::ldexp(static_cast<float>(mantissa), -24);
  else
    magnitude = std::ldexp(static_cast<float>(mantissa + 0x400), exponent - 25);
  return (half & 0x8000) != 0 ? -magnitude : magnitude;
}

}  // namespace

void to_native_order(const Datatype& type, std::span<std::byte> elements) {
  if (!type.is_big_endian || type.size < 2) return;
  const auto width = static_cast<std::size_t>(type.size);
  for (; !elements.empty(); elements = elements.subspan(width))
    std::reverse(elements.begin(), elements.begin() + static_cast<std::ptrdiff_t>(width));
}

void widen_float16(std::span<const std::byte> elements, std::span<float> out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::uint16_t half;
    std::memcpy(&half, elements.data() + 2 * i, sizeof half);
    out[i] = widen(half);
  }
}

}  // namespace cellfeed::hdf5
