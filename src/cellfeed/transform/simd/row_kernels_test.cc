// Row kernels of every instruction set against loops, at lengths around the vectors and lines of
// each.
#include "cellfeed/transform/simd/row_kernels.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/each_target.h"
#include "cellfeed/transform/column_map.h"

namespace cellfeed::transform {
namespace {

using cellfeed::testing::for_each_target;

constexpr std::size_t kMargin = 32;  // elements that must stay as they are, on either side

std::vector<std::size_t> lengths() {
  std::vector<std::size_t> out(70);
  std::iota(out.begin(), out.end(), std::size_t{0});
  out.insert(out.end(), {127, 128, 129, 1000, 3001});
  return out;
}

std::vector<std::int32_t> random_columns(std::size_t n, std::size_t n_cols, std::mt19937& random) {
  std::vector<std::int32_t> all(n_cols);
  std::iota(all.begin(), all.end(), 0);
  std::vector<std::int32_t> out;
  std::sample(all.begin(), all.end(), std::back_inserter(out), n, random);
  return out;
}

// Each column is kept with this probability, and gets a place in random order.
std::vector<std::int32_t> random_map(std::size_t n_cols, double keep, std::mt19937& random) {
  std::vector<std::int32_t> places(n_cols);
  std::iota(places.begin(), places.end(), 0);
  std::shuffle(places.begin(), places.end(), random);
  for (auto& place : places)
    if (!std::bernoulli_distribution(keep)(random)) place = -1;
  return places;
}

template <typename T>
class RowKernels : public ::testing::Test {};
using ValueTypes = ::testing::Types<float, double, std::int32_t, std::int64_t>;
TYPED_TEST_SUITE(RowKernels, ValueTypes);

template <typename T>
void expect_kept_as_a_loop_does(std::size_t n, double keep, std::size_t more_cols, bool is_apart,
                                std::mt19937& random) {
  const std::size_t n_cols = n + more_cols;
  const auto map = random_map(n_cols, keep, random);
  const auto marks = mark_kept(map, find_traits(map));
  std::vector<std::int32_t> indices(kMargin, -7), columns = random_columns(n, n_cols, random);
  indices.insert(indices.end(), columns.begin(), columns.end());
  indices.insert(indices.end(), kMargin, -7);
  std::vector<T> values(indices.size(), T{-7});
  for (std::size_t i = 0; i < n; ++i) values[kMargin + i] = static_cast<T>(i + 1);
  std::vector<std::int32_t> expected_indices;
  std::vector<T> expected_values;
  for (std::size_t i = 0; i < n; ++i)
    if (map[columns[i]] >= 0) {
      expected_indices.push_back(map[columns[i]]);
      expected_values.push_back(static_cast<T>(i + 1));
    }
  const std::vector<std::int32_t> from_indices = indices;
  const std::vector<T> from_values = values;
  if (is_apart) {
    indices.assign(indices.size(), -7);
    values.assign(values.size(), T{-7});
  }
  const std::size_t kept =
      keep_mapped((is_apart ? from_indices : indices).data() + kMargin,
                  (is_apart ? from_values : values).data() + kMargin, sizeof(T), n,
                  {map.data(), marks.empty() ? nullptr : marks.data()}, indices.data() + kMargin,
                  values.data() + kMargin);
  const auto slice = [&](const auto& all, std::size_t begin, std::size_t end) {
    return std::vector(all.begin() + static_cast<std::ptrdiff_t>(begin),
                       all.begin() + static_cast<std::ptrdiff_t>(end));
  };
  ASSERT_EQ(kept, expected_indices.size());
  EXPECT_EQ(slice(indices, kMargin, kMargin + kept), expected_indices);
  EXPECT_EQ(slice(values, kMargin, kMargin + kept), expected_values);
  for (const std::size_t side : {std::size_t{0}, kMargin + n}) {
    EXPECT_EQ(slice(indices, side, side + kMargin), std::vector<std::int32_t>(kMargin, -7));
    EXPECT_EQ(slice(values, side, side + kMargin), std::vector<T>(kMargin, T{-7}));
  }
}

TYPED_TEST(RowKernels, KeepMappedIsTheLoop) {
  for_each_target([] {
    std::mt19937 random(5);
    for (const std::size_t n : lengths())
      for (const double keep : {0.0, 0.1, 0.5, 0.97, 1.0})
        // Columns that are near to one another, some of them, and none.
        for (const std::size_t more_cols :
             {std::size_t{100}, std::min<std::size_t>(100 * n, 20'000)})
          for (const bool is_apart : {false, true}) {
            SCOPED_TRACE(::testing::Message()
                         << "length " << n << ", kept " << keep << ", columns " << more_cols
                         << (is_apart ? ", apart" : ", in place"));
            expect_kept_as_a_loop_does<TypeParam>(n, keep, more_cols, is_apart, random);
          }
  });
}

template <typename T>
void expect_scattered_as_a_loop_does(std::size_t n_cols, std::size_t n, std::size_t offset,
                                     RowStores stores, EntryOrder order, std::mt19937& random) {
  auto columns = random_columns(n, n_cols, random);
  if (order == EntryOrder::kAny) std::shuffle(columns.begin(), columns.end(), random);
  std::vector<T> values(n);
  for (auto& value : values) value = static_cast<T>(1 + random() % 1000);
  std::vector<T> out(kMargin + offset + n_cols + kMargin, T{-7});
  std::vector<T> expected = out;
  for (std::size_t c = 0; c < n_cols; ++c) expected[kMargin + offset + c] = 0;
  for (std::size_t k = 0; k < n; ++k) expected[kMargin + offset + columns[k]] = values[k];
  scatter_row(columns, values.data(), sizeof(T), out.data() + kMargin + offset, n_cols, stores,
              order);
  EXPECT_EQ(out, expected);
}

TYPED_TEST(RowKernels, ScatterRowIsTheLoop) {
  for_each_target([] {
    std::mt19937 random(6);
    for (const auto stores : {RowStores::kCached, RowStores::kStreaming})
      for (const std::size_t n_cols : lengths())
        for (const std::size_t n : {std::size_t{0}, n_cols / 10, n_cols / 2, n_cols})
          for (const auto order : {EntryOrder::kIncreasing, EntryOrder::kAny}) {
            SCOPED_TRACE(::testing::Message() << n_cols << " columns, " << n << " entries");
            expect_scattered_as_a_loop_does<TypeParam>(n_cols, n, random() % 17, stores, order,
                                                       random);
          }
  });
}

TEST(RowKernels, CopiesPastTheCachesAreCopies) {
  for_each_target([] {
    std::mt19937 random(7);
    for (const std::size_t n : lengths())
      for (const std::size_t offset : {0, 1, 7, 15}) {
        std::vector<std::uint32_t> from(n), out(kMargin + offset + n + kMargin, 7);
        for (auto& word : from) word = static_cast<std::uint32_t>(random());
        auto expected = out;
        std::copy(from.begin(), from.end(),
                  expected.begin() + static_cast<std::ptrdiff_t>(kMargin + offset));
        copy_past_caches(from.data(), n * 4, out.data() + kMargin + offset);
        publish_copies();
        EXPECT_EQ(out, expected) << n << " words, " << offset << " behind a line";
      }
  });
}

TEST(RowKernels, OnlyLargeBlocksOfWideRowsAreStreamed) {
  EXPECT_EQ(choose_row_stores(1024, 18'708 * 4), RowStores::kStreaming);
  EXPECT_EQ(choose_row_stores(128, 18'708 * 4), RowStores::kCached);
  EXPECT_EQ(choose_row_stores(100'000, 2048 * 4), RowStores::kCached);
  EXPECT_EQ(choose_row_stores(0, 0), RowStores::kCached);
  EXPECT_EQ(choose_row_stores(std::int64_t{1} << 40, std::int64_t{1} << 40), RowStores::kStreaming);
}

TEST(RowKernels, ValuesOfOtherWidthsAreRefused) {
  std::int32_t index = 0;
  double value = 1, out = 0;
  EXPECT_THROW(keep_mapped(&index, &value, 2, 1, {&index}, &index, &value), Error);
  EXPECT_THROW(scatter_row({}, &value, 1, &out, 1, RowStores::kCached), Error);
}

}  // namespace
}  // namespace cellfeed::transform
