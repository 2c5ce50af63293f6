// ParquetStore: the conformance suite on lists and on wide tables, of row groups of any size.
#include "cellfeed/format/parquet/parquet_store.h"

#include <arrow/api.h>
#include <arrow/io/memory.h>
#include <gtest/gtest.h>
#include <parquet/arrow/writer.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::parquet_table {
namespace {

using Columns = std::vector<std::pair<std::string, std::shared_ptr<arrow::Array>>>;

template <typename T>
T good(arrow::Result<T> result) {
  if (!result.ok()) throw Error(ErrorKind::kInternal, result.status().ToString());
  return *std::move(result);
}

void good(const arrow::Status& status) {
  if (!status.ok()) throw Error(ErrorKind::kInternal, status.ToString());
}

struct WriteOptions {
  std::int64_t group_rows = 1 << 20;
  parquet::Compression::type compression = parquet::Compression::SNAPPY;
  bool has_statistics = true;
};

std::vector<std::byte> parquet_bytes(const Columns& columns, std::int64_t n_rows,
                                     const WriteOptions& options = {}) {
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (const auto& [name, array] : columns) {
    fields.push_back(arrow::field(name, array->type()));
    arrays.push_back(array);
  }
  const auto table = arrow::Table::Make(arrow::schema(fields), arrays, n_rows);
  const auto sink = good(arrow::io::BufferOutputStream::Create());
  parquet::WriterProperties::Builder properties;
  properties.compression(options.compression);
  if (!options.has_statistics) properties.disable_statistics();
  good(parquet::arrow::WriteTable(
      *table, arrow::default_memory_pool(), sink, options.group_rows, properties.build(),
      parquet::ArrowWriterProperties::Builder().store_schema()->build()));
  const auto buffer = good(sink->Finish());
  const auto* bytes = reinterpret_cast<const std::byte*>(buffer->data());
  return {bytes, bytes + buffer->size()};
}

// Places where files may be: one interface for both kinds.
void put(const testing::TempDir& dir, const std::string& name, std::vector<std::byte> bytes) {
  dir.write(name, bytes);
}
void put(const testing::MemoryPlace& place, const std::string& name, std::vector<std::byte> bytes) {
  place.files().put(place.file(name), std::move(bytes));
}

std::shared_ptr<arrow::Array> texts(const std::string& prefix, std::int64_t n) {
  arrow::StringBuilder builder;
  for (std::int64_t i = 0; i < n; ++i) good(builder.Append(prefix + std::to_string(i)));
  return good(builder.Finish());
}

template <typename ArrowType, typename T>
std::shared_ptr<arrow::Array> numbers(const std::vector<T>& values) {
  arrow::NumericBuilder<ArrowType> builder;
  for (const T value : values) good(builder.Append(static_cast<typename ArrowType::c_type>(value)));
  return good(builder.Finish());
}

std::shared_ptr<arrow::Array> numbers_of(DType dtype, const std::vector<double>& values,
                                         const std::vector<std::int64_t>& whole) {
  switch (dtype) {
    case DType::kU8:
      return numbers<arrow::UInt8Type>(whole);
    case DType::kI8:
      return numbers<arrow::Int8Type>(whole);
    case DType::kU16:
      return numbers<arrow::UInt16Type>(whole);
    case DType::kI16:
      return numbers<arrow::Int16Type>(whole);
    case DType::kU32:
      return numbers<arrow::UInt32Type>(whole);
    case DType::kI32:
      return numbers<arrow::Int32Type>(whole);
    case DType::kU64:
      return numbers<arrow::UInt64Type>(whole);
    case DType::kI64:
      return numbers<arrow::Int64Type>(whole);
    case DType::kF32:
      return numbers<arrow::FloatType>(values);
    default:
      return numbers<arrow::DoubleType>(values);
  }
}

std::shared_ptr<arrow::Array> lists_of(const std::shared_ptr<arrow::Array>& items,
                                       const std::vector<std::int64_t>& begins) {
  return good(arrow::ListArray::FromArrays(*numbers<arrow::Int32Type>(begins), *items));
}

// All entries of a block, as floats and as integers.
struct Entries {
  std::vector<std::int64_t> begins, columns, whole;
  std::vector<double> values;
};

Entries entries_of(const matrix::CsrBlock& block) {
  Entries entries;
  entries.begins.assign(block.indptr.begin(), block.indptr.end());
  entries.columns.assign(block.indices.begin(), block.indices.end());
  std::visit(
      [&](const auto& values) {
        for (const auto value : values) {
          entries.values.push_back(static_cast<double>(value));
          entries.whole.push_back(std::is_floating_point_v<std::decay_t<decltype(value)>>
                                      ? 0
                                      : static_cast<std::int64_t>(value));
          if constexpr (std::is_floating_point_v<std::decay_t<decltype(value)>>)
            if (value == static_cast<float>(static_cast<std::int64_t>(value)))
              entries.whole.back() = static_cast<std::int64_t>(value);
        }
      },
      block.values);
  return entries;
}

Columns list_columns(const matrix::CsrBlock& block, DType stored) {
  const Entries entries = entries_of(block);
  return {
      {"genes", lists_of(numbers<arrow::Int64Type>(entries.columns), entries.begins)},
      {"label", texts("type", block.n_rows)},
      {"expressions", lists_of(numbers_of(stored, entries.values, entries.whole), entries.begins)}};
}

Columns wide_columns(const matrix::CsrBlock& block, DType stored) {
  const Entries entries = entries_of(block);
  Columns columns{{"label", texts("type", block.n_rows)}};
  for (std::int64_t c = 0; c < block.n_cols; ++c) {
    std::vector<double> values(static_cast<std::size_t>(block.n_rows));
    std::vector<std::int64_t> whole(values.size());
    for (std::size_t row = 0; row < values.size(); ++row)
      for (std::int64_t k = entries.begins[row]; k < entries.begins[row + 1]; ++k)
        if (entries.columns[k] == c) {
          values[row] = entries.values[k];
          whole[row] = entries.whole[k];
        }
    columns.emplace_back("gene" + std::to_string(c), numbers_of(stored, values, whole));
  }
  return columns;
}

// is_wide: a column for each gene; of no genes there is no such table, which lists stand in for.
template <typename Place>
testing::RowStoreFactory parquet_in(bool is_wide, WriteOptions write, std::int64_t cache_bytes) {
  return [=](const matrix::CsrBlock& block, DType stored) {
    auto place = std::make_shared<Place>();
    OpenOptions options;
    options.cache_bytes = cache_bytes;
    const bool has_columns = is_wide && block.n_cols > 0;
    if (!has_columns) {
      put(*place, "var.parquet",
          parquet_bytes({{"name", texts("gene", block.n_cols)}}, block.n_cols));
      options.choice.table.var = place->file("var.parquet");
    }
    put(*place, "a.parquet",
        parquet_bytes(has_columns ? wide_columns(block, stored) : list_columns(block, stored),
                      block.n_rows, write));
    auto store = open_parquet(place->file("a.parquet"), options);
    return std::make_unique<testing::KeptStore>(std::move(place), std::move(store));
  };
}

using testing::MemoryPlace;
using testing::TempDir;

const bool kParquetConforms[] = {
    testing::register_row_store_conformance(
        "parquet_lists", parquet_in<TempDir>(false, {.group_rows = 32}, 1 << 20)),
    testing::register_row_store_conformance(
        "parquet_lists_one_group_no_cache",
        parquet_in<TempDir>(false, {.compression = parquet::Compression::ZSTD}, 0)),
    testing::register_row_store_conformance(
        "parquet_lists_single_rows_unmapped",
        parquet_in<MemoryPlace>(false, {.group_rows = 1, .has_statistics = false}, 10'000)),
    testing::register_row_store_conformance(
        "parquet_lists_unmapped", parquet_in<MemoryPlace>(false, {.group_rows = 50}, 1 << 20)),
    testing::register_row_store_conformance("parquet_wide",
                                            parquet_in<TempDir>(true, {.group_rows = 37}, 1 << 20)),
    testing::register_row_store_conformance(
        "parquet_wide_unmapped_no_cache",
        parquet_in<MemoryPlace>(true, {.group_rows = 60, .compression = parquet::Compression::GZIP},
                                0)),
};

matrix::CsrBlock small_block() { return testing::random_csr({.n_rows = 40, .n_cols = 30}); }

TEST(ParquetStore, EachGroupIsDecodedOnceWhoeverAsksForIt) {
  const testing::MemoryPlace place;
  const auto block = small_block();
  put(place, "a.parquet", parquet_bytes(list_columns(block, DType::kF32), 40, {.group_rows = 10}));
  OpenOptions options;
  options.cache_bytes = 1 << 20;
  const auto store = open_parquet(place.file("a.parquet"), options);
  const std::vector<std::int64_t> rows{3, 11, 5, 3, 12};
  const ReadPlan plan = store->plan(rows);
  const auto first = fetch_rows(*store, rows);
  EXPECT_GT(first->bytes_read(), 0);
  EXPECT_GT(plan.bytes_inflated, 0);
  EXPECT_EQ(first->n_tasks(), 2);
  EXPECT_EQ(fetch_rows(*store, rows)->bytes_read(), 0) << "the cache has both groups";
  EXPECT_EQ(testing::decode_rows(*first), testing::expected_rows(*store, block, rows));
}

TEST(ParquetStore, RowsInOrderDecodeEachGroupOnceWithoutACache) {
  const testing::TempDir dir;
  const auto block = small_block();
  put(dir, "a.parquet", parquet_bytes(wide_columns(block, DType::kF32), 40, {.group_rows = 10}));
  OpenOptions options;
  options.cache_bytes = 0;
  options.reads_in_order = true;
  const auto store = open_parquet(dir.file("a.parquet"), options);
  std::int64_t n_bytes = 0;
  for (std::int64_t row = 0; row < 40; ++row)
    n_bytes += fetch_rows(*store, {&row, 1})->bytes_read();
  store->release_pages();
  const std::int64_t last = 39;
  const std::int64_t of_a_group = fetch_rows(*store, {&last, 1})->bytes_read();
  EXPECT_GT(of_a_group, 0) << "what was kept is let go";
  EXPECT_LT(n_bytes, 5 * of_a_group);
}

TEST(ParquetStore, TokensAndSeriesAreRefusedByName) {
  const testing::TempDir dir;
  const auto lists = lists_of(numbers<arrow::Int64Type>(std::vector<int>{1, 2, 3}), {0, 2, 3});
  put(dir, "tokens.parquet",
      parquet_bytes(
          {{"input_ids", lists}, {"length", numbers<arrow::Int64Type>(std::vector<int>{2, 1})}},
          2));
  testing::expect_error(
      ErrorKind::kUnsupported, [&] { open_parquet(dir.file("tokens.parquet"), {}); },
      "'input_ids' holds tokens without values");
  arrow::TimestampBuilder times(arrow::timestamp(arrow::TimeUnit::MICRO),
                                arrow::default_memory_pool());
  good(times.AppendValues(std::vector<std::int64_t>{1, 2}));
  put(dir, "series.parquet",
      parquet_bytes({{"at", good(times.Finish())},
                     {"price", numbers<arrow::DoubleType>(std::vector<double>{1, 2})}},
                    2));
  testing::expect_error(
      ErrorKind::kUnsupported, [&] { open_parquet(dir.file("series.parquet"), {}); },
      "build_series");
}

TEST(ParquetStore, ListsThatNameNoGeneOrDifferInLengthAreRefusedByRow) {
  const testing::TempDir dir;
  const auto genes = lists_of(numbers<arrow::Int64Type>(std::vector<int>{1, 2, -3}), {0, 2, 3});
  const auto values = numbers<arrow::FloatType>(std::vector<double>{1, 2, 3});
  put(dir, "negative.parquet",
      parquet_bytes({{"genes", genes}, {"values", lists_of(values, {0, 2, 3})}}, 2));
  put(dir, "lengths.parquet",
      parquet_bytes({{"genes", genes}, {"values", lists_of(values, {0, 1, 3})}}, 2));
  const std::vector<std::int64_t> rows{0, 1};
  testing::expect_error(
      ErrorKind::kCorruptData,
      [&] { fetch_rows(*open_parquet(dir.file("negative.parquet"), {}), rows); },
      "row 1: '-3' in column 'genes'");
  testing::expect_error(
      ErrorKind::kCorruptData,
      [&] { fetch_rows(*open_parquet(dir.file("lengths.parquet"), {}), rows); },
      "row 0: the lists differ in length");
}

TEST(ParquetStore, EveryBytePutAwryIsAnErrorOrNoMatter) {
  const auto block = testing::random_csr({.n_rows = 6, .n_cols = 5});
  const auto bytes = parquet_bytes(list_columns(block, DType::kF32), 6, {.group_rows = 4});
  const testing::MemoryPlace place;
  const std::vector<std::int64_t> rows{0, 1, 2, 3, 4, 5};
  for (std::size_t at = 0; at < bytes.size(); ++at) {
    auto damaged = bytes;
    damaged[at] ^= std::byte{0x41};
    put(place, "a.parquet", damaged);
    try {
      const auto store = open_parquet(place.file("a.parquet"), {});
      if (store->info().n_rows != 6) continue;
      testing::decode_rows(*fetch_rows(*store, rows));
      store->read_obs(0, 6);
    } catch (const Error& error) {
      EXPECT_NE(error.kind(), ErrorKind::kInternal) << at << ": " << error.what();
      EXPECT_NE(std::string(error.what()).find("a.parquet"), std::string::npos) << error.what();
    }
  }
}

}  // namespace
}  // namespace cellfeed::format::parquet_table
