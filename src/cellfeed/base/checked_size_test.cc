// CheckedSize: exact where the result fits in 63 bits, none where it does not.
#include "cellfeed/base/checked_size.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>

namespace cellfeed {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kSizes[] = {0,
                                   1,
                                   2,
                                   127,
                                   4096,
                                   INT32_MAX,
                                   3037000499,
                                   3037000500,
                                   kLargest / 4,
                                   kLargest / 2,
                                   kLargest - 1,
                                   kLargest};

TEST(CheckedSize, IsWhatWiderIntegersSay) {
  for (const std::int64_t a : kSizes)
    for (const std::int64_t b : kSizes) {
      const auto sum = static_cast<__int128>(a) + b;
      const auto product = static_cast<__int128>(a) * b;
      EXPECT_EQ((CheckedSize(a) + b).fits(), sum <= kLargest) << a << " + " << b;
      EXPECT_EQ((CheckedSize(a) * b).fits(), product <= kLargest) << a << " * " << b;
      if (sum <= kLargest) {
        EXPECT_EQ((CheckedSize(a) + b).value(), static_cast<std::int64_t>(sum));
      }
      if (product <= kLargest) {
        EXPECT_EQ((CheckedSize(a) * b).value(), static_cast<std::int64_t>(product));
      }
    }
}

TEST(CheckedSize, OnceOutOfRangeStaysSo) {
  const CheckedSize lost = CheckedSize(kLargest) * 4;
  EXPECT_FALSE(lost.fits());
  EXPECT_FALSE((lost * 0).fits());
  EXPECT_FALSE((lost + 0).fits());
  EXPECT_FALSE(lost == 0);
  EXPECT_FALSE(CheckedSize(-1).fits());
  EXPECT_TRUE(CheckedSize(4) * 3 + 2 == 14);
}

}  // namespace
}  // namespace cellfeed
