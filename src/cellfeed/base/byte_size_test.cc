#include "cellfeed/base/byte_size.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

TEST(ByteSize, ReadsDecimalAndBinaryUnits) {
  EXPECT_EQ(parse_byte_size("0"), 0);
  EXPECT_EQ(parse_byte_size("1000000"), 1000000);
  EXPECT_EQ(parse_byte_size("2GB"), 2000000000);
  EXPECT_EQ(parse_byte_size("2 gb"), 2000000000);
  EXPECT_EQ(parse_byte_size("512MB"), 512000000);
  EXPECT_EQ(parse_byte_size("1GiB"), 1073741824);
  EXPECT_EQ(parse_byte_size("1.5KiB"), 1536);
  EXPECT_EQ(parse_byte_size("64k"), 64000);
}

TEST(ByteSize, RefusesWhatIsNotASize) {
  for (const char* text : {"", "GB", "-1", "-1GB", "2GBs", "2 G B", "nan", "inf", "1e400",
                           "9999999TB", "2GB ", "two"}) {
    SCOPED_TRACE(text);
    EXPECT_THROW(parse_byte_size(text), Error);
  }
}

TEST(ByteSize, PrintsThreeDigits) {
  EXPECT_EQ(format_byte_size(0), "0 bytes");
  EXPECT_EQ(format_byte_size(999), "999 bytes");
  EXPECT_EQ(format_byte_size(1000), "1.00 KB");
  EXPECT_EQ(format_byte_size(12345678), "12.3 MB");
  EXPECT_EQ(format_byte_size(999999999), "1.00 GB");
  EXPECT_EQ(format_byte_size(123000000000), "123 GB");
}

}  // namespace
}  // namespace cellfeed
