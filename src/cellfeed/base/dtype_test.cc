#include "cellfeed/base/dtype.h"

#include <gtest/gtest.h>

namespace cellfeed {
namespace {

TEST(DType, ItsBytesAreThoseOfTheTypeThatDispatchGives) {
  for (const char* name : {"bool", "uint8", "int8", "uint16", "int16", "uint32", "int32", "uint64",
                           "int64", "float32", "float64"}) {
    const DType dtype = dtype_from_name(name);
    dispatch_dtype(dtype, [&](auto value) {
      EXPECT_EQ(dtype_bytes(dtype), sizeof(value)) << name;
      EXPECT_EQ(dtype_of<decltype(value)>(), dtype);
    });
    EXPECT_EQ(dtype_name(dtype), name);
  }
}

TEST(DType, IntegersByTheirWidth) {
  EXPECT_EQ(integer_dtype(1, true), DType::kI8);
  EXPECT_EQ(integer_dtype(2, false), DType::kU16);
  EXPECT_EQ(integer_dtype(4, true), DType::kI32);
  EXPECT_EQ(integer_dtype(8, false), DType::kU64);
}

}  // namespace
}  // namespace cellfeed
