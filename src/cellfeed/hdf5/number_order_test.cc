// Byte orders and half precision, against the formula of IEEE 754.
#include "cellfeed/hdf5/number_order.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <vector>

namespace cellfeed::hdf5 {
namespace {

TEST(NumberOrder, EveryHalfIsWidenedExactly) {
  std::vector<std::uint16_t> halves(1 << 16);
  for (std::size_t i = 0; i < halves.size(); ++i) halves[i] = static_cast<std::uint16_t>(i);
  std::vector<float> floats(halves.size());
  widen_float16(std::as_bytes(std::span(halves)), floats);
  for (const std::uint16_t half : halves) {
    const int exponent = (half & 0x7c00) / 1024;
    const double fraction = (half & 0x03ff) / 1024.0;
    const double sign = half < 0x8000 ? 1 : -1;
    const double expected = exponent == 0 ? sign * std::pow(2.0, -14) * fraction
                                          : sign * std::pow(2.0, exponent - 15) * (1 + fraction);
    const float found = floats[half];
    if (exponent == 31 && fraction != 0)
      EXPECT_TRUE(std::isnan(found)) << half;
    else if (exponent == 31)
      EXPECT_TRUE(std::isinf(found) && (found < 0) == (sign < 0)) << half;
    else
      EXPECT_EQ(found, static_cast<float>(expected)) << half;
  }
  EXPECT_TRUE(std::signbit(floats[0x8000]));
}

TEST(NumberOrder, BigEndianElementsAreSwapped) {
  Datatype type;
  type.size = 4;
  type.is_big_endian = true;
  std::array<std::byte, 8> bytes{};
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<std::byte>(i);
  to_native_order(type, bytes);
  const std::array<int, 8> expected{3, 2, 1, 0, 7, 6, 5, 4};
  for (std::size_t i = 0; i < bytes.size(); ++i)
    EXPECT_EQ(std::to_integer<int>(bytes[i]), expected[i]);
  type.is_big_endian = false;
  to_native_order(type, bytes);
  EXPECT_EQ(bytes[0], std::byte{3});
}

}  // namespace
}  // namespace cellfeed::hdf5
