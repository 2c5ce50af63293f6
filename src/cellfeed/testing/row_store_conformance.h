// Conformance suite of RowStore: what every format must do, as named tests of the format's own test
// binary.
//
//   const bool registered = testing::register_row_store_conformance("memory", make_my_store);
//
// The factory gets a block (sorted, unique) and the type to store its values in, and keeps what the
// store needs alive.
#pragma once

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/format/moved_rows.h"
#include "cellfeed/format/row_store.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::testing {

// slow_row_store.h has a base for stores that pass on to another (and hold, say, the directory of
// its file).
using RowStoreFactory =
    std::function<std::unique_ptr<format::RowStore>(const matrix::CsrBlock& block, DType stored)>;

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
    const format::CsrSink sink{.place = place.data(),
                               .indices = indices.data(),
                               .values = values.data(),
                               .dtype = dtype,
                               .casting = casting,
                               .counts = counts.data(),
                               .past_caches = past_caches};
    for (std::int64_t begin = 0; begin < n; begin += step)
      if (const std::int64_t end = std::min(n, begin + step); places.empty())
        fetched.decode(begin, end, sink);
      else
        dynamic_cast<const format::MovedRows&>(fetched).decode_moved(begin, end, sink, places);
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
    const format::DenseSink sink{.place = place.data(),
                                 .values = values.data(),
                                 .dtype = dtype,
                                 .columns = columns,
                                 .past_caches = past_caches};
    for (std::int64_t begin = 0; begin < n; begin += 7)
      fetched.decode_dense(begin, std::min(n, begin + 7), sink);
    for (std::int64_t i = 0; i < n; ++i) {
      const auto row = values.begin() + place[i];
      rows.emplace_back(row, row + width);
      for (std::int64_t k = width; k < width + kGap; ++k)
        EXPECT_EQ(row[k], static_cast<T>(kUntouched)) << "after row " << i << " of the request";
    }
  });
  return rows;
}

template <typename Fn>
void expect_error(ErrorKind kind, Fn&& fn, const std::string& text = "") {
  try {
    fn();
    ADD_FAILURE() << "no error, expected: " << error_kind_name(kind) << " " << text;
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), kind) << error.what();
    EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
  }
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
  if (dynamic_cast<const format::MovedRows*>(fetched.get()) != nullptr && store.info().n_cols > 0)
    expect_moved_rows(*fetched, store.info().n_cols, expected, dtype);
  if (store.info().is_dense) expect_dense_rows(store, expected, rows, dtype);
  const format::ReadPlan plan = store.plan(rows);
  EXPECT_LE(fetched->bytes_held(), plan.bytes_held);
  EXPECT_GE(plan.bytes_inflated, 0);
  EXPECT_GE(fetched->bytes_read(), 0);
}

inline std::vector<std::int64_t> random_rows(std::int64_t n_rows, std::int64_t n,
                                             std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::int64_t> rows(n);
  for (auto& row : rows)
    row = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n_rows));
  return rows;
}

inline void describes_itself(const RowStoreFactory& make) {
  const auto block = random_csr();
  const auto store = make(block, DType::kF32);
  EXPECT_EQ(store->info().n_rows, block.n_rows);
  EXPECT_EQ(store->info().n_cols, block.n_cols);
  if (store->info().nnz >= 0) {
    EXPECT_LE(store->info().nnz, std::ssize(block.indices.span()));
    if (!store->info().is_dense) {
      EXPECT_EQ(store->info().nnz, std::ssize(block.indices.span()));
    }
  }
  EXPECT_EQ(store->info().value_dtype, DType::kF32);
  EXPECT_FALSE(store->info().format.empty());
  EXPECT_GE(store->info().rows_per_chunk, 1);
  EXPECT_EQ(store->genes().size(), block.n_cols);
  EXPECT_EQ(store->fingerprint(), store->fingerprint());
  EXPECT_NE(store->fingerprint(), make(random_csr({.seed = 99}), DType::kF32)->fingerprint());
}

inline void reads_every_row_in_order(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 200});
  const auto store = make(block, DType::kF32);
  std::vector<std::int64_t> rows(200);
  std::iota(rows.begin(), rows.end(), 0);
  expect_rows(*store, block, rows);
}

inline void reads_rows_in_any_order_with_repeats(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 150, .seed = 2});
  const auto store = make(block, DType::kF32);
  for (std::uint64_t seed = 0; seed < 5; ++seed)
    expect_rows(*store, block, random_rows(150, 97, seed));
  expect_rows(*store, block, {149, 0, 149, 149, 7, 7, 0});
}

inline void reads_no_rows(const RowStoreFactory& make) {
  const auto block = random_csr();
  const auto store = make(block, DType::kF32);
  expect_rows(*store, block, {});
}

inline void reads_empty_rows(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 20, .empty_rows = 1.0});
  const auto store = make(block, DType::kF32);
  expect_rows(*store, block, {3, 19, 0});
}

inline void opens_without_rows(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 0});
  const auto store = make(block, DType::kF32);
  EXPECT_EQ(store->info().n_rows, 0);
  expect_rows(*store, block, {});
  expect_error(ErrorKind::kOutOfRange, [&] {
    const std::int64_t row = 0;
    store->begin({&row, 1});
  });
  EXPECT_EQ(store->read_obs(0, 0)->num_rows(), 0);
}

inline void opens_without_columns(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 5, .n_cols = 0});
  const auto store = make(block, DType::kF32);
  expect_rows(*store, block, {4, 0});
  EXPECT_EQ(store->read_var()->num_rows(), 0);
}

inline void reads_full_rows(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 10, .n_cols = 1000, .density = 1.0, .empty_rows = 0.0});
  const auto store = make(block, DType::kF32);
  expect_rows(*store, block, {9, 0, 5});
}

inline void stores_every_dtype(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 40, .seed = 3});
  const auto rows = random_rows(40, 30, 4);
  for (const DType stored : {DType::kU8, DType::kI8, DType::kU16, DType::kI16, DType::kU32,
                             DType::kI32, DType::kU64, DType::kI64, DType::kF32, DType::kF64}) {
    SCOPED_TRACE(dtype_name(stored));
    const auto store = make(block, stored);
    EXPECT_EQ(store->info().value_dtype, stored);
    for (const DType out : {DType::kF32, DType::kF64, DType::kI32, DType::kI64})
      expect_rows(*store, block, rows, out);
  }
}

inline void refuses_to_lose_precision(const RowStoreFactory& make) {
  auto block = random_csr({.n_rows = 3, .empty_rows = 0.0, .dtype = DType::kI64});
  std::get<matrix::Buffer<std::int64_t>>(block.values)[0] = (std::int64_t{1} << 53) + 1;
  const auto store = make(block, DType::kI64);
  const std::vector<std::int64_t> rows{0, 1};
  const auto fetched = format::fetch_rows(*store, rows);
  expect_error(ErrorKind::kPrecision, [&] { decode_rows(*fetched, DType::kF32); }, "row 0");
  expect_error(
      ErrorKind::kPrecision, [&] { decode_rows(*fetched, DType::kF64); }, "9007199254740993");
  EXPECT_EQ(decode_rows(*fetched, DType::kF64, Casting::kSameKind).values[0][0],
            9007199254740992.0);
  EXPECT_EQ(decode_rows(*fetched, DType::kI64).indices, expected_rows(*store, block, rows).indices);
}

inline void keeps_fractions_nan_and_infinity(const RowStoreFactory& make) {
  auto block = random_csr({.n_rows = 3, .empty_rows = 0.0, .explicit_zeros = 0.0});
  auto& values = std::get<matrix::Buffer<float>>(block.values);
  values[0] = 0.1f;
  values[1] = -1.5f;
  values[2] = std::numeric_limits<float>::infinity();
  values[3] = std::numeric_limits<float>::quiet_NaN();
  const auto store = make(block, DType::kF32);
  const std::vector<std::int64_t> rows{0};
  const auto read = decode_rows(*format::fetch_rows(*store, rows), DType::kF32);
  EXPECT_EQ(read.values[0][0], static_cast<double>(0.1f));
  EXPECT_EQ(read.values[0][1], -1.5);
  EXPECT_TRUE(std::isinf(read.values[0][2]));
  EXPECT_TRUE(std::isnan(read.values[0][3]));
  expect_error(ErrorKind::kPrecision,
               [&] { decode_rows(*format::fetch_rows(*store, rows), DType::kI32); });
}

inline void refuses_rows_out_of_range(const RowStoreFactory& make) {
  const auto store = make(random_csr({.n_rows = 10}), DType::kF32);
  for (const std::int64_t bad : {std::int64_t{-1}, std::int64_t{10}, std::int64_t{1} << 62}) {
    const std::vector<std::int64_t> rows{0, bad};
    expect_error(ErrorKind::kOutOfRange, [&] { store->begin(rows); }, std::to_string(bad));
  }
  expect_error(ErrorKind::kOutOfRange, [&] { store->read_obs(0, 11); });
  expect_error(ErrorKind::kOutOfRange, [&] { store->read_obs(5, 4); });
}

inline void serves_many_threads(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 300, .seed = 5});
  const auto store = make(block, DType::kF32);
  const auto parallel = [](std::int64_t n, const std::function<void(std::int64_t)>& task) {
    std::vector<std::jthread> threads;
    for (std::int64_t part = 0; part < 3; ++part)
      threads.emplace_back([=, &task] {
        for (std::int64_t i = part; i < n; i += 3) task(i);
      });
  };
  std::vector<std::jthread> threads;
  for (std::uint64_t t = 0; t < 4; ++t)
    threads.emplace_back([&, t] {
      for (std::uint64_t round = 0; round < 3; ++round) {
        const auto rows = random_rows(300, 64, t * 100 + round);
        const auto fetched = format::fetch_rows(*store, rows, parallel);
        EXPECT_EQ(decode_rows(*fetched), expected_rows(*store, block, rows));
      }
    });
}

inline void decodes_disjoint_ranges_at_once(const RowStoreFactory& make, bool past_caches) {
  const auto block = random_csr({.n_rows = 200, .seed = 6});
  const auto store = make(block, DType::kF32);
  const auto rows = random_rows(200, 128, 7);
  const auto fetched = format::fetch_rows(*store, rows);
  std::vector<std::int64_t> sizes(128), place(129, 0);
  fetched->sizes(sizes);
  for (int i = 0; i < 128; ++i) place[i + 1] = place[i] + sizes[i];
  std::vector<std::int32_t> indices(place[128] + 64), counts(128);
  std::vector<float> values(place[128] + 64);
  const format::CsrSink sink{.place = place.data(),
                             .indices = indices.data(),
                             .values = values.data(),
                             .dtype = DType::kF32,
                             .casting = Casting::kExact,
                             .counts = counts.data(),
                             .past_caches = past_caches};
  {
    // Backwards, so that a row that writes past its end is caught by the next.
    std::vector<std::jthread> threads;
    for (int t = 3; t >= 0; --t)
      threads.emplace_back([&, t] { fetched->decode(t * 32, t * 32 + 32, sink); });
  }
  const auto expected = expected_rows(*store, block, rows);
  for (int i = 0; i < 128; ++i) {
    ASSERT_EQ(counts[i], std::ssize(expected.indices[i]));
    for (std::int64_t k = 0; k < counts[i]; ++k) {
      ASSERT_EQ(indices[place[i] + k], expected.indices[i][k]);
      ASSERT_EQ(values[place[i] + k], expected.values[i][k]);
    }
  }
}

inline void decodes_disjoint_ranges_at_once(const RowStoreFactory& make) {
  for (const bool past_caches : {false, true}) decodes_disjoint_ranges_at_once(make, past_caches);
}

inline void keeps_fetched_rows_apart(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 100, .seed = 8});
  const auto store = make(block, DType::kF32);
  const std::vector<std::int64_t> first{1, 2, 3}, second{99, 2};
  const auto a = format::fetch_rows(*store, first);
  const auto b = format::fetch_rows(*store, second);
  EXPECT_EQ(decode_rows(*b), expected_rows(*store, block, second));
  EXPECT_EQ(decode_rows(*a), expected_rows(*store, block, first));
}

// Steps of two fetches between one another, tasks from the last to the first.
inline void takes_steps_in_any_order(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 300, .seed = 9});
  const auto store = make(block, DType::kF32);
  const auto first = random_rows(300, 200, 1), second = random_rows(300, 200, 2);
  const auto a = store->begin(first);
  const auto b = store->begin(second);
  b->wait();
  a->wait();
  a->wait();  // again is legal
  for (const auto* rows : {&b, &a})
    for (std::int64_t task = (*rows)->n_tasks(); task-- > 0;) (*rows)->run(task);
  a->prefetch(0, a->n_rows());
  EXPECT_EQ(decode_rows(*a), expected_rows(*store, block, first));
  EXPECT_EQ(decode_rows(*b), expected_rows(*store, block, second));
}

// Rows that are let go after a step leave nothing half done.
inline void may_be_dropped_after_any_step(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 300, .seed = 10});
  const auto store = make(block, DType::kF32);
  const auto rows = random_rows(300, 200, 3);
  store->begin(rows);
  store->begin(rows)->wait();
  {
    const auto fetched = store->begin(rows);
    fetched->wait();
    for (std::int64_t task = 0; task < fetched->n_tasks(); task += 2) fetched->run(task);
  }
  expect_rows(*store, block, rows);
}

// What is stopped ends with kCancelled, or as if nobody had asked.
inline void ends_or_goes_on_when_stopped(const RowStoreFactory& make) {
  const auto block = random_csr({.n_rows = 50, .seed = 11});
  const auto store = make(block, DType::kF32);
  const auto rows = random_rows(50, 40, 4);
  std::stop_source stop;
  stop.request_stop();
  try {
    const auto fetched = store->begin(rows, {.stop = stop.get_token()});
    fetched->wait();
    for (std::int64_t task = 0; task < fetched->n_tasks(); ++task) fetched->run(task);
    EXPECT_EQ(decode_rows(*fetched), expected_rows(*store, block, rows));
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled) << error.what();
  }
  expect_rows(*store, block, rows);
}

inline void tells_obs_and_var_by_name(const RowStoreFactory& make) {
  const auto store = make(random_csr({.n_rows = 12, .n_cols = 7}), DType::kF32);
  const auto obs = store->read_obs(0, 12);
  ASSERT_EQ(obs->num_rows(), 12);
  ASSERT_GE(obs->num_columns(), 1);
  EXPECT_EQ(obs->field(0)->name(), "_index");
  EXPECT_EQ(obs->field(0)->type()->id(), arrow::Type::STRING);
  EXPECT_EQ(obs->num_columns(), 1 + std::ssize(store->obs_names()));
  const auto part = store->read_obs(5, 9);
  EXPECT_TRUE(part->column(0)->Equals(obs->Slice(5, 4)->column(0)));
  for (const std::string& name : store->obs_names()) EXPECT_EQ(store->obs_column(name).length, 12);
  const auto var = store->read_var();
  ASSERT_EQ(var->num_rows(), 7);
  EXPECT_EQ(var->field(0)->name(), "_index");
  for (int i = 0; i < 7; ++i)
    EXPECT_EQ((*var->column(0)->GetScalar(i))->ToString(), store->genes().names[i]);
  expect_error(
      ErrorKind::kNoSuchKey, [&] { store->obs_column("no such column"); }, "no such column");
}

class ConformanceTest : public ::testing::Test {
 public:
  ConformanceTest(void (*check)(const RowStoreFactory&), RowStoreFactory make)
      : check_(check), make_(std::move(make)) {}
  void TestBody() override { check_(make_); }

 private:
  void (*check_)(const RowStoreFactory&);
  RowStoreFactory make_;
};

}  // namespace conformance

// Adds the tests "RowStoreConformance_<name>.*". Call it before main, from a static.
inline bool register_row_store_conformance(const std::string& name, const RowStoreFactory& make) {
  using Check = void (*)(const RowStoreFactory&);
  const std::pair<const char*, Check> checks[] = {
      {"DescribesItself", conformance::describes_itself},
      {"ReadsEveryRowInOrder", conformance::reads_every_row_in_order},
      {"ReadsRowsInAnyOrderWithRepeats", conformance::reads_rows_in_any_order_with_repeats},
      {"ReadsNoRows", conformance::reads_no_rows},
      {"ReadsEmptyRows", conformance::reads_empty_rows},
      {"OpensWithoutRows", conformance::opens_without_rows},
      {"OpensWithoutColumns", conformance::opens_without_columns},
      {"ReadsFullRows", conformance::reads_full_rows},
      {"StoresEveryDtype", conformance::stores_every_dtype},
      {"RefusesToLosePrecision", conformance::refuses_to_lose_precision},
      {"KeepsFractionsNanAndInfinity", conformance::keeps_fractions_nan_and_infinity},
      {"RefusesRowsOutOfRange", conformance::refuses_rows_out_of_range},
      {"ServesManyThreads", conformance::serves_many_threads},
      {"DecodesDisjointRangesAtOnce", conformance::decodes_disjoint_ranges_at_once},
      {"KeepsFetchedRowsApart", conformance::keeps_fetched_rows_apart},
      {"TakesStepsInAnyOrder", conformance::takes_steps_in_any_order},
      {"MayBeDroppedAfterAnyStep", conformance::may_be_dropped_after_any_step},
      {"EndsOrGoesOnWhenStopped", conformance::ends_or_goes_on_when_stopped},
      {"TellsObsAndVarByName", conformance::tells_obs_and_var_by_name},
  };
  for (const auto& [title, check] : checks)
    ::testing::RegisterTest(("RowStoreConformance_" + name).c_str(), title, nullptr, nullptr,
                            __FILE__, __LINE__, [check, make]() -> ::testing::Test* {
                              return new conformance::ConformanceTest(check, make);
                            });
  return true;
}

}  // namespace cellfeed::testing
