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
#include "cellfeed/format/row_store.h"
#include "cellfeed/testing/expect_rows.h"
#include "cellfeed/testing/random_csr.h"

namespace cellfeed::testing {

// forwarding_store.h has a base for stores that pass on to another (and hold, say, the directory of
// its file).
using RowStoreFactory =
    std::function<std::unique_ptr<format::RowStore>(const matrix::CsrBlock& block, DType stored)>;

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
  const format::CsrTarget target{.place = place.data(),
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
      threads.emplace_back([&, t] { fetched->decode(t * 32, t * 32 + 32, target); });
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
