// Kernels of plain CSR rows on every instruction set, against loops: unaligned, at lengths around
// all vector widths, with a fault at each place.
#include "cellfeed/format/csr_row_kernels.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <numeric>
#include <vector>

#include "cellfeed/base/convert_value.h"
#include "cellfeed/format/row_copy.h"
#include "cellfeed/testing/each_target.h"

namespace cellfeed::format {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::size_t kLengths[] = {1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 33, 64, 65, 100};

// The bytes of values as a file holds them, anywhere.
template <typename T>
class Unaligned {
 public:
  explicit Unaligned(const std::vector<T>& values) : bytes_(values.size() * sizeof(T) + 1) {
    if (!values.empty()) std::memcpy(bytes_.data() + 1, values.data(), values.size() * sizeof(T));
  }
  const std::byte* data() const { return bytes_.data() + 1; }

 private:
  std::vector<std::byte> bytes_;
};

template <typename T>
class CsrRowIndices : public ::testing::Test {};
using IndexTypes = ::testing::Types<std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(CsrRowIndices, IndexTypes);

bool copy(const Unaligned<std::int32_t>& indices, std::size_t n, std::int32_t* out) {
  return copy_ascending(indices.data(), static_cast<std::int64_t>(n), out, {}, false);
}
bool copy(const Unaligned<std::int64_t>& indices, std::size_t n, std::int32_t* out) {
  return narrow_indices(indices.data(), n, out);
}

template <typename T>
void expect_copied(const std::vector<T>& indices) {
  bool ascends = true;
  std::vector<std::int32_t> expected, out(indices.size() + 1, -9);
  for (std::size_t i = 0; i < indices.size(); ++i) {
    expected.push_back(static_cast<std::int32_t>(indices[i]));
    ascends &= i == 0 || indices[i] > indices[i - 1];
  }
  expected.push_back(-9);
  EXPECT_EQ(copy(Unaligned(indices), indices.size(), out.data()), ascends);
  EXPECT_EQ(out, expected);
}

TYPED_TEST(CsrRowIndices, AreCopiedAndTheirOrderTested) {
  for_each_target([] {
    for (const std::size_t n : kLengths) {
      std::vector<TypeParam> indices(n);
      std::iota(indices.begin(), indices.end(), TypeParam{-2});
      expect_copied(indices);
      for (std::size_t i = 1; i < n; ++i) {
        auto equal = indices, descends = indices;
        equal[i] = equal[i - 1];
        descends[i - 1] = std::numeric_limits<std::int32_t>::max();
        expect_copied(equal);
        expect_copied(descends);
      }
    }
  });
}

// In the low halves these ascend.
TEST(CsrRowIndices, OfEightBytesAreComparedWhole) {
  for_each_target([] {
    std::vector<std::int64_t> indices(40);
    for (std::size_t i = 0; i < indices.size(); ++i)
      indices[i] = static_cast<std::int64_t>(i) - (static_cast<std::int64_t>(i) << 32);
    expect_copied(indices);
  });
}

template <typename T>
void expect_converted(const std::vector<T>& values,
                      bool (*convert)(const std::byte*, std::size_t, float*)) {
  bool exact = true;
  std::vector<float> expected, out(values.size() + 1, -9);
  for (const T value : values) expected.push_back(convert_value<float>(value, &exact));
  expected.push_back(-9);
  const bool is_done = convert(Unaligned(values).data(), values.size(), out.data());
  EXPECT_EQ(is_done, exact);
  EXPECT_EQ(out.back(), -9);
  if (!is_done) return;
  EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0);
}

template <typename T>
void expect_conversions(const std::vector<T>& faults, const std::vector<T>& others,
                        bool (*convert)(const std::byte*, std::size_t, float*)) {
  for_each_target([&] {
    for (const std::size_t n : kLengths) {
      std::vector<T> values(n);
      std::iota(values.begin(), values.end(), T{-3});
      expect_converted(values, convert);
      for (std::size_t i = 0; i < n; ++i)
        for (const auto* list : {&faults, &others})
          for (const T value : *list) {
            auto changed = values;
            changed[i] = value;
            expect_converted(changed, convert);
          }
    }
  });
}

TEST(CsrRowValues, Float64IsExactOrRefused) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  expect_conversions<double>({0.1, 1e300, -1e300, 1e-300, 16'777'217},
                             {-0.0, 0.5, 0x1p-149, 0x1.fffffep127}, convert_f64_to_f32);
  std::vector<double> values(20, std::nan(""));
  std::vector<float> out(20);
  for_each_target([&] {
    EXPECT_TRUE(convert_f64_to_f32(Unaligned(values).data(), 20, out.data()));
    for (const float value : out) EXPECT_TRUE(std::isnan(value));
    // Without vectors infinities are refused.
    const bool is_done =
        convert_f64_to_f32(Unaligned<double>({kInfinity, -kInfinity}).data(), 2, out.data());
    EXPECT_TRUE(!is_done || (out[0] == kInfinity && out[1] == -kInfinity));
  });
}

TEST(CsrRowValues, Float64IsRoundedUnlessItOverflows) {
  constexpr double kInfinity = std::numeric_limits<double>::infinity();
  constexpr double kLargest = std::numeric_limits<float>::max();
  // Half a step above the largest float, and the double before it, which rounds down.
  constexpr double kOverflow = 0x1.ffffffp127;
  const std::vector<double> fine{0.1,  -1e-300,     16'777'217, kLargest, 0x1.fffffefffffffp127,
                                 -0.0, std::nan("")};
  const std::vector<double> beyond{kInfinity,
                                   -kInfinity,
                                   kOverflow,
                                   -kOverflow,
                                   1e39,
                                   -1e300,
                                   std::numeric_limits<double>::max()};
  for_each_target([&] {
    for (const std::size_t n : kLengths)
      for (std::size_t i = 0; i < n; ++i) {
        for (const double value : fine) {
          std::vector<double> values(n, 0.3);
          values[i] = value;
          std::vector<float> out(n + 1, -9), expected(values.begin(), values.end());
          EXPECT_TRUE(round_f64_to_f32(Unaligned(values).data(), n, out.data())) << value;
          expected.push_back(-9);
          EXPECT_EQ(std::memcmp(out.data(), expected.data(), out.size() * 4), 0) << value;
        }
        for (const double value : beyond) {
          std::vector<double> values(n, 0.3);
          values[i] = value;
          std::vector<float> out(n);
          EXPECT_FALSE(round_f64_to_f32(Unaligned(values).data(), n, out.data())) << value;
        }
      }
  });
}

TEST(CsrRowValues, IntegersAreExactOrRefused) {
  constexpr std::int32_t kLimit = 1 << 24;
  constexpr auto kMin = std::numeric_limits<std::int32_t>::min();
  expect_conversions<std::int32_t>({kLimit + 1, -kLimit - 1, kMin + 1}, {kLimit, -kLimit},
                                   convert_i32_to_f32);
  constexpr std::int64_t kHigh = std::int64_t{1} << 32;
  expect_conversions<std::int64_t>({kLimit + 1, -kLimit - 1, kHigh + kHigh / 2 + 1, 1 - 2 * kHigh},
                                   {kLimit, -kLimit}, convert_i64_to_f32);
  // Exact, but beyond what the kernels look at.
  std::vector<float> out(3);
  for_each_target([&] {
    EXPECT_FALSE(convert_i64_to_f32(Unaligned<std::int64_t>({1, kHigh, 2}).data(), 3, out.data()));
    EXPECT_FALSE(convert_i32_to_f32(Unaligned<std::int32_t>({1, kMin, 2}).data(), 3, out.data()));
  });
}

}  // namespace
}  // namespace cellfeed::format
