// Kernels of every instruction set against loops, to the bit, at widths around their vectors.
#include "cellfeed/series/record_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <utility>
#include <vector>

#include "cellfeed/testing/each_target.h"

namespace cellfeed::series {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::size_t kRows = 37;
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Rows two numbers longer than the columns, which nothing may look at.
struct NumberTable {
  explicit NumberTable(std::size_t n_cols, double missing, bool is_narrow = false)
      : n_cols(n_cols), stride(n_cols + 2), values(kRows * stride, kInfinity) {
    std::mt19937_64 random(n_cols);
    std::normal_distribution<double> normal(3, 1e3);
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t c = 0; c < n_cols; ++c) {
        double value = normal(random);
        if (is_narrow) value = static_cast<double>(static_cast<float>(value));
        if (std::bernoulli_distribution(missing)(random)) value = NAN;
        values[i * stride + c] = random() % 9 == 0 ? -0.0 : value;
      }
  }
  NumberRows rows() const { return number_rows(values.data(), kRows, stride); }
  double at(std::size_t i, std::size_t c) const { return values[i * stride + c]; }
  std::size_t n_cols, stride;
  std::vector<double> values;
};

template <typename T>
bool are_same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0;
}

template <typename Check>
void for_each_width(const Check& check) {
  for_each_target([&] {
    for (std::size_t n_cols = 1; n_cols <= 21; ++n_cols)
      for (const double missing : {0.0, 0.2, 1.0}) check(NumberTable(n_cols, missing), missing);
  });
}

TEST(RecordKernels, SumUpColumnsAsLoopsDo) {
  for_each_width([](const NumberTable& table, double) {
    const std::size_t n = table.n_cols;
    std::vector<double> count(n), sum(n), least(n), most(n), squares(n);
    sum_columns(table.rows(), n, {count.data(), sum.data(), least.data(), most.data()});
    sum_squares(table.rows(), n, sum.data(), squares.data());
    for (std::size_t c = 0; c < n; ++c) {
      double n_there = 0, total = 0, low = kInfinity, high = -kInfinity, distances = 0;
      for (std::size_t i = 0; i < kRows; ++i) {
        const double value = table.at(i, c);
        if (std::isnan(value)) continue;
        n_there += 1;
        total += value;
        low = std::min(low, value);
        high = std::max(high, value);
      }
      for (std::size_t i = 0; i < kRows; ++i) {
        const volatile double distance = table.at(i, c) - total;
        const volatile double square = distance * distance;
        if (!std::isnan(table.at(i, c))) distances += square;
      }
      EXPECT_EQ(count[c], n_there);
      EXPECT_EQ(sum[c], total);
      EXPECT_EQ(least[c], low);
      EXPECT_EQ(most[c], high);
      EXPECT_EQ(squares[c], distances);
    }
  });
}

// Rows of float32 that begin `kBefore` bytes into each, as records do.
struct NarrowRows {
  static constexpr std::size_t kBefore = 8;
  explicit NarrowRows(const NumberTable& table)
      : n_bytes(kBefore + 4 * table.n_cols + 4), bytes(kRows * n_bytes, std::byte{0x5A}) {
    for (std::size_t i = 0; i < kRows; ++i)
      for (std::size_t c = 0; c < table.n_cols; ++c) {
        const auto value = static_cast<float>(table.at(i, c));
        std::memcpy(&bytes[i * n_bytes + kBefore + 4 * c], &value, sizeof value);
      }
  }
  NumberRows rows() const { return {bytes.data() + kBefore, kRows, n_bytes, true}; }
  std::size_t n_bytes;
  std::vector<std::byte> bytes;
};

TEST(RecordKernels, GiveTheSameOfFloat32) {
  for_each_target([] {
    for (std::size_t n = 1; n <= 21; ++n) {
      const NumberTable table(n, 0.2, true);
      const NarrowRows narrow(table);
      const auto all = [&](const NumberRows& rows) {
        std::vector<double> found(5 * n + kRows * n);
        sum_columns(rows, n, {&found[0], &found[n], &found[2 * n], &found[3 * n]});
        sum_squares(rows, n, &found[n], &found[4 * n]);
        const std::vector<double> center(n, 0.3), scale(n, 1.7);
        scale_rows(rows, n, center.data(), scale.data(), &found[5 * n]);
        std::vector<float> scaled(kRows * n);
        scale_rows(rows, n, center.data(), scale.data(), scaled.data());
        found.insert(found.end(), scaled.begin(), scaled.end());
        found.push_back(has_missing(rows, n) ? 1 : 0);
        return found;
      };
      EXPECT_TRUE(are_same_bits(all(narrow.rows()), all(table.rows()))) << n;
      const NumberTable whole(n, 0, true);
      EXPECT_FALSE(has_missing(NarrowRows(whole).rows(), n));
    }
  });
}

template <typename T>
void expect_interleaved(std::size_t n_cols) {
  for (const std::size_t n : {1U, 3U, 4U, 32U, 37U}) {
    const NumberTable table(n_cols, 0.2, true);
    std::vector<std::vector<T>> columns(n_cols, std::vector<T>(n));
    std::vector<const T*> starts;
    for (std::size_t c = 0; c < n_cols; ++c) {
      for (std::size_t i = 0; i < n; ++i) columns[c][i] = static_cast<T>(table.at(i, c));
      starts.push_back(columns[c].data());
    }
    NarrowRows expected(table);
    expected.bytes.resize(n * expected.n_bytes);
    std::vector<std::byte> found(expected.bytes.size(), std::byte{0x5A});
    const auto interleave = [&] {
      return interleave_narrow(std::span<const T* const>(starts), n, &found[NarrowRows::kBefore],
                               expected.n_bytes);
    };
    EXPECT_TRUE(interleave());
    EXPECT_TRUE(found == expected.bytes) << n_cols << " " << n;
    for (std::size_t c = 0; c < n_cols; ++c)
      for (const double wrong : {kInfinity, -kInfinity, 0.1, 1e300}) {
        if (sizeof(T) == 4 && !std::isinf(wrong)) continue;
        const std::size_t i = (7 * c) % n;
        const T before = std::exchange(columns[c][i], static_cast<T>(wrong));
        EXPECT_FALSE(interleave()) << c << " " << i << " " << wrong;
        columns[c][i] = before;
      }
  }
}

TEST(RecordKernels, TurnColumnsIntoRows) {
  for_each_target([] {
    for (std::size_t n_cols = 1; n_cols <= 21; ++n_cols) {
      expect_interleaved<float>(n_cols);
      expect_interleaved<double>(n_cols);
    }
  });
}

TEST(RecordKernels, SeeWhatIsMissing) {
  for_each_target([] {
    for (std::size_t n_cols = 1; n_cols <= 21; ++n_cols) {
      NumberTable table(n_cols, 0);
      EXPECT_FALSE(has_missing(table.rows(), n_cols));
      for (std::size_t c = 0; c < n_cols; ++c) {
        NumberTable with_one = table;
        with_one.values[(c % kRows) * table.stride + c] = NAN;
        EXPECT_TRUE(has_missing(with_one.rows(), n_cols)) << c;
      }
    }
  });
}

template <typename T>
void expect_scaled(const NumberTable& table) {
  const std::size_t n = table.n_cols;
  std::vector<double> center(n), scale(n);
  for (std::size_t c = 0; c < n; ++c) {
    center[c] = 0.3 * static_cast<double>(c);
    scale[c] = 1.7 + static_cast<double>(c);
  }
  std::vector<T> found(kRows * n), expected;
  for (std::size_t i = 0; i < kRows; ++i)
    for (std::size_t c = 0; c < n; ++c)
      expected.push_back(static_cast<T>((table.at(i, c) - center[c]) / scale[c]));
  EXPECT_TRUE(scale_rows(table.rows(), n, center.data(), scale.data(), found.data()));
  for (std::size_t i = 0; i < found.size(); ++i)
    EXPECT_TRUE(found[i] == expected[i] || (std::isnan(found[i]) && std::isnan(expected[i])));
  NumberTable beyond = table;
  const double most = std::numeric_limits<T>::max();
  beyond.values[(kRows - 1) * table.stride + n - 1] = sizeof(T) == 4 ? -1e3 * most : most;
  scale[n - 1] = sizeof(T) == 4 ? 1 : 1e-3;
  EXPECT_FALSE(scale_rows(beyond.rows(), n, center.data(), scale.data(), found.data()));
  if (sizeof(T) == 8) return;
  // The numbers beside the one from which on they round to infinity.
  center[n - 1] = 0;
  beyond.values[(kRows - 1) * table.stride + n - 1] = std::nextafter(0x1.ffffffp127, 0);
  EXPECT_TRUE(scale_rows(beyond.rows(), n, center.data(), scale.data(), found.data()));
  EXPECT_EQ(found.back(), std::numeric_limits<T>::max());
  beyond.values[(kRows - 1) * table.stride + n - 1] = -0x1.ffffffp127;
  EXPECT_FALSE(scale_rows(beyond.rows(), n, center.data(), scale.data(), found.data()));
}

TEST(RecordKernels, ScaleAndSayWhatIsBeyond) {
  for_each_width([](const NumberTable& table, double) {
    expect_scaled<float>(table);
    expect_scaled<double>(table);
  });
}

TEST(RecordKernels, NarrowWhatKeepsItsBitsAndWidenItAgain) {
  for_each_target([] {
    for (std::size_t n_cols = 1; n_cols <= 21; ++n_cols) {
      const NumberTable table(n_cols, 0.1, true);
      const std::size_t n_bytes = 4 * n_cols + 12;
      std::vector<std::byte> narrow(kRows * n_bytes, std::byte{0x5A});
      ASSERT_TRUE(narrow_rows(table.rows(), n_cols, narrow.data(), n_bytes));
      std::vector<double> wide(table.values.size(), kInfinity);
      widen_rows({narrow.data(), kRows, n_bytes, true}, n_cols, wide.data(), table.stride);
      EXPECT_TRUE(are_same_bits(wide, table.values));
      for (std::size_t i = 0; i < kRows; ++i)
        EXPECT_EQ(narrow[i * n_bytes + 4 * n_cols], std::byte{0x5A});
      for (std::size_t c = 0; c < n_cols; ++c)
        for (const double value : {0.1, 1e300, 1e-300, 16777217.0}) {
          NumberTable other = table;
          other.values[(kRows - 1) * table.stride + c] = value;
          EXPECT_FALSE(narrow_rows(other.rows(), n_cols, narrow.data(), n_bytes)) << value;
        }
    }
  });
}

}  // namespace
}  // namespace cellfeed::series
