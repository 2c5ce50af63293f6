// Rows of a store, read in every way there is, beside the block that they were made of.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <span>
#include <type_traits>
#include <variant>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/moved_rows.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/matrix/csr.h"

namespace cellfeed::testing {

struct DecodedRows {
  std::vector<std::vector<std::int32_t>> indices;
  std::vector<std::vector<double>> values;
  bool operator==(const DecodedRows&) const = default;
};

// All rows of a fetch, decoded in pieces of `step`, as doubles; columns moved to their places, if
// there are any. place[] leaves a gap after each row, which must stay untouched.
inline DecodedRows decode_rows(const format::FetchedRows& fetched, DType dtype = DType::kF64,
                               Casting casting = Casting::kExact, std::int64_t step = 7,
                               bool past_caches = false, const format::ColumnPlaces& places = {},
                               std::int64_t gap = 3) {
  constexpr std::int64_t kAfterAll = 64;
  constexpr int kUntouched = -77;
  const std::int64_t n = fetched.n_rows();
  std::vector<std::int64_t> sizes(n), place(n + 1, 0);
  fetched.sizes(sizes);
  for (std::int64_t i = 0; i < n; ++i) place[i + 1] = place[i] + sizes[i] + gap;
  std::vector<std::int32_t> indices(place[n] + kAfterAll, kUntouched), counts(n, -1);
  DecodedRows rows;
  dispatch_dtype(dtype, [&](auto zero) {
    using T =
        std::conditional_t<std::is_same_v<decltype(zero), bool>, std::uint8_t, decltype(zero)>;
    constexpr T kNoValue = static_cast<T>(kUntouched);
    std::vector<T> values(indices.size(), kNoValue);
    const format::CsrTarget target{.place = place.data(),
                                   .indices = indices.data(),
                                   .values = values.data(),
                                   .dtype = dtype,
                                   .casting = casting,
                                   .counts = counts.data(),
                                   .past_caches = past_caches};
    for (std::int64_t begin = 0; begin < n; begin += step)
      if (const std::int64_t end = std::min(n, begin + step); places.empty())
        fetched.decode(begin, end, target);
      else
        fetched.moved()->decode_moved(begin, end, target, places);
    for (std::int64_t i = 0; i < n; ++i) {
      EXPECT_GE(counts[i], 0) << "row " << i << " of the request was not counted";
      EXPECT_LE(counts[i], sizes[i]);
      const auto first = static_cast<std::size_t>(place[i]);
      const auto last = first + static_cast<std::size_t>(std::max(counts[i], 0));
      rows.indices.emplace_back(indices.begin() + first, indices.begin() + last);
      rows.values.emplace_back(values.begin() + first, values.begin() + last);
      const std::int64_t next = i + 1 < n ? place[i + 1] : place[n] + kAfterAll;
      for (std::int64_t k = place[i] + sizes[i]; k < next; ++k) {
        EXPECT_EQ(indices[k], kUntouched) << "after row " << i << " of the request";
        EXPECT_EQ(values[k], kNoValue) << "after row " << i << " of the request";
      }
    }
  });
  return rows;
}

// A store of dense rows has no zeros among its entries.
inline DecodedRows expected_rows(const format::RowStore& store, const matrix::CsrBlock& block,
                                 std::span<const std::int64_t> rows) {
  const bool keeps_zeros = !store.info().is_dense;
  DecodedRows expected;
  for (const std::int64_t row : rows) {
    auto& indices = expected.indices.emplace_back();
    auto& values = expected.values.emplace_back();
    std::visit(
        [&](const auto& stored) {
          for (std::int64_t i = block.indptr[row]; i < block.indptr[row + 1]; ++i) {
            if (stored[i] == 0 && !keeps_zeros) continue;
            indices.push_back(block.indices[i]);
            values.push_back(static_cast<double>(stored[i]));
          }
        },
        block.values);
  }
  return expected;
}

// The columns given of each row, decoded in pieces of 7; others are left out, -1 is a zero.
inline std::vector<std::vector<double>> decode_dense_rows(const format::FetchedRows& fetched,
                                                          std::int64_t n_cols, DType dtype,
                                                          std::span<const std::int32_t> columns,
                                                          bool past_caches) {
  constexpr std::int64_t kGap = 5;
  constexpr int kUntouched = -77;
  const std::int64_t n = fetched.n_rows();
  const std::int64_t width = columns.empty() ? n_cols : std::ssize(columns);
  std::vector<std::int64_t> place(static_cast<std::size_t>(n));
  for (std::int64_t i = 0; i < n; ++i) place[i] = (n - 1 - i) * (width + kGap);
  std::vector<std::vector<double>> rows;
  dispatch_dtype(dtype, [&](auto zero) {
    using T =
        std::conditional_t<std::is_same_v<decltype(zero), bool>, std::uint8_t, decltype(zero)>;
    std::vector<T> values(static_cast<std::size_t>(n * (width + kGap)), static_cast<T>(kUntouched));
    const format::DenseTarget target{.place = place.data(),
                                     .values = values.data(),
                                     .dtype = dtype,
                                     .columns = columns,
                                     .past_caches = past_caches};
    for (std::int64_t begin = 0; begin < n; begin += 7)
      fetched.decode_dense(begin, std::min(n, begin + 7), target);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto row = values.begin() + place[i];
      rows.emplace_back(row, row + width);
      for (std::int64_t k = width; k < width + kGap; ++k)
        EXPECT_EQ(row[k], static_cast<T>(kUntouched)) << "after row " << i << " of the request";
    }
  });
  return rows;
}

namespace conformance {

// Rows that are stored dense, decoded as such, without having been counted.
inline void expect_dense_rows(const format::RowStore& store, const DecodedRows& expected,
                              const std::vector<std::int64_t>& rows, DType dtype) {
  const auto fetched = store.begin(rows, {.counts_entries = false});
  fetched->wait();
  for (std::int64_t task = 0; task < fetched->n_tasks(); ++task) fetched->run(task);
  ASSERT_TRUE(fetched->is_dense());
  const std::int64_t n_cols = store.info().n_cols;
  std::vector<std::int64_t> sizes(rows.size());
  fetched->sizes(sizes);
  EXPECT_EQ(sizes, std::vector<std::int64_t>(rows.size(), n_cols));
  EXPECT_EQ(decode_rows(*fetched, dtype), expected) << "not counted";
  std::vector<std::int32_t> columns(static_cast<std::size_t>(n_cols));
  std::iota(columns.rbegin(), columns.rend(), 0);
  columns.insert(columns.begin() + std::ssize(columns) / 2, -1);
  std::vector<std::vector<double>> all, some;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    auto& row = all.emplace_back(static_cast<std::size_t>(n_cols));
    for (std::size_t k = 0; k < expected.indices[i].size(); ++k)
      row[expected.indices[i][k]] = expected.values[i][k];
    for (auto& selected = some.emplace_back(); const std::int32_t column : columns)
      selected.push_back(column < 0 ? 0 : row[column]);
  }
  for (const bool past_caches : {false, true}) {
    EXPECT_EQ(decode_dense_rows(*fetched, n_cols, dtype, {}, past_caches), all);
    EXPECT_EQ(decode_dense_rows(*fetched, n_cols, dtype, columns, past_caches), some);
  }
}

// Rows decoded to other columns: places that two bytes hold, and others.
inline void expect_moved_rows(const format::FetchedRows& fetched, std::int64_t n_cols,
                              const DecodedRows& expected, DType dtype) {
  for (const std::int32_t first : {2, 1 << 16}) {
    std::vector<std::int32_t> places(static_cast<std::size_t>(n_cols));
    for (std::size_t c = 0; c < places.size(); ++c)
      places[c] = first + static_cast<std::int32_t>(3 * c + c % 2);
    const std::vector<std::uint16_t> narrow(places.begin(),
                                            first == 2 ? places.end() : places.begin());
    DecodedRows moved = expected;
    for (auto& indices : moved.indices)
      for (std::int32_t& index : indices) index = places[index];
    for (const bool past_caches : {false, true})
      for (const std::int64_t gap : {0, 3})
        EXPECT_EQ(
            decode_rows(fetched, dtype, Casting::kExact, 7, past_caches, {places, narrow}, gap),
            moved)
            << "places from " << first << ", past caches: " << past_caches << ", gap " << gap;
  }
}

inline void expect_rows(const format::RowStore& store, const matrix::CsrBlock& block,
                        const std::vector<std::int64_t>& rows, DType dtype = DType::kF64) {
  const auto fetched = format::fetch_rows(store, rows);
  ASSERT_EQ(fetched->n_rows(), std::ssize(rows));
  const DecodedRows expected = expected_rows(store, block, rows);
  // No row of the block holds a gene twice, so the sizes are exact.
  std::vector<std::int64_t> sizes(rows.size()), expected_sizes;
  fetched->sizes(sizes);
  for (const auto& indices : expected.indices) expected_sizes.push_back(std::ssize(indices));
  EXPECT_EQ(sizes, expected_sizes);
  EXPECT_EQ(decode_rows(*fetched, dtype), expected);
  EXPECT_EQ(decode_rows(*fetched, dtype, Casting::kExact, 7, true), expected) << "past the caches";
  if (fetched->moved() != nullptr && store.info().n_cols > 0)
    expect_moved_rows(*fetched, store.info().n_cols, expected, dtype);
  if (store.info().is_dense) expect_dense_rows(store, expected, rows, dtype);
  const format::ReadPlan plan = store.plan(rows);
  EXPECT_LE(fetched->bytes_held(), plan.bytes_held);
  EXPECT_GE(plan.bytes_inflated, 0);
  EXPECT_GE(fetched->bytes_read(), 0);
}

}  // namespace conformance
}  // namespace cellfeed::testing
