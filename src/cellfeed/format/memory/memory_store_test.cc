// MemoryStore: the conformance suite, and the rows that only stored files have (unsorted, repeated,
// out of range).
#include "cellfeed/format/memory/memory_store.h"

#include <arrow/api.h>
#include <gtest/gtest.h>

#include <numeric>

#include "cellfeed/testing/faulty_row_store.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/slow_row_store.h"

namespace cellfeed::format::memory {
namespace {

const bool kMemoryConforms = testing::register_row_store_conformance(
    "memory", [](const matrix::CsrBlock& block, DType stored) {
      return make_memory_store(make_stored_csr(block, stored));
    });

const bool kSlowConforms = testing::register_row_store_conformance(
    "slow", [](const matrix::CsrBlock& block, DType stored) {
      return std::make_unique<testing::SlowRowStore>(
          make_memory_store(make_stored_csr(block, stored)));
    });

TEST(FaultyRowStoreTest, FailsWhereItIsTold) {
  const testing::FaultyRowStore store(make_memory_store(make_stored_csr(testing::random_csr())),
                                      {.fail_at_fetch = 1, .bad_row = 7});
  const std::vector<std::int64_t> rows{3, 7};
  const auto fetched = fetch_rows(store, rows);
  testing::expect_error(ErrorKind::kCorruptData, [&] { testing::decode_rows(*fetched); }, "row: 7");
  testing::expect_error(ErrorKind::kIo, [&] { fetch_rows(store, rows); });
}

template <typename T>
StoredCsr make_rows(std::vector<std::int64_t> indptr, std::vector<std::int32_t> indices,
                    std::vector<T> values, std::int64_t n_cols) {
  StoredCsr stored;
  stored.n_rows = std::ssize(indptr) - 1;
  stored.n_cols = n_cols;
  stored.dtype = dtype_of<T>();
  stored.indptr.reset(indptr.size());
  std::copy(indptr.begin(), indptr.end(), stored.indptr.begin());
  stored.indices.reset(indices.size());
  std::copy(indices.begin(), indices.end(), stored.indices.begin());
  stored.values.reset(values.size() * sizeof(T));
  std::memcpy(stored.values.data(), values.data(), values.size() * sizeof(T));
  return stored;
}

testing::DecodedRows read_all(const RowStore& store, DType dtype = DType::kF64,
                              Casting casting = Casting::kExact) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store.info().n_rows));
  std::iota(rows.begin(), rows.end(), 0);
  return testing::decode_rows(*fetch_rows(store, rows), dtype, casting);
}

TEST(RowDecoderTest, SortsIndicesWithTheirValues) {
  const auto store =
      make_memory_store(make_rows<float>({0, 3, 5}, {7, 2, 5, 1, 0}, {7, 2, 5, 10, 11}, 8));
  const auto rows = read_all(*store);
  EXPECT_EQ(rows.indices, (std::vector<std::vector<std::int32_t>>{{2, 5, 7}, {0, 1}}));
  EXPECT_EQ(rows.values, (std::vector<std::vector<double>>{{2, 5, 7}, {11, 10}}));
}

TEST(RowDecoderTest, SumsDuplicateEntries) {
  const auto store =
      make_memory_store(make_rows<std::uint8_t>({0, 4}, {3, 1, 3, 3}, {200, 1, 100, 5}, 4));
  const auto rows = read_all(*store, DType::kF32);
  EXPECT_EQ(rows.indices, (std::vector<std::vector<std::int32_t>>{{1, 3}}));
  EXPECT_EQ(rows.values,
            (std::vector<std::vector<double>>{{1, 305}}));  // wider than the stored byte
}

TEST(RowDecoderTest, SumsAdjacentDuplicatesOfSortedRows) {
  const auto store = make_memory_store(make_rows<double>({0, 3}, {1, 1, 2}, {0.5, 0.25, 4}, 4));
  EXPECT_EQ(read_all(*store).values, (std::vector<std::vector<double>>{{0.75, 4}}));
}

TEST(RowDecoderTest, RefusesSumsThatDoNotFit) {
  const auto store = make_memory_store(make_rows<std::int32_t>({0, 2}, {1, 1}, {2147483647, 1}, 4));
  testing::expect_error(
      ErrorKind::kPrecision, [&] { read_all(*store, DType::kI32); }, "2147483648");
  EXPECT_EQ(read_all(*store, DType::kI64).values[0][0], 2147483648.0);
}

TEST(RowDecoderTest, NamesTheRowAndEntryOfABadIndex) {
  for (const std::int32_t bad : {-1, 4, std::numeric_limits<std::int32_t>::max()}) {
    const auto sorted = make_memory_store(make_rows<float>({0, 1, 3}, {0, 2, bad}, {1, 1, 1}, 4),
                                          nullptr, nullptr, "f.x");
    testing::expect_error(ErrorKind::kCorruptData, [&] { read_all(*sorted); }, "f.x");
    const auto unsorted =
        make_memory_store(make_rows<float>({0, 0, 4}, {3, bad, 1, 0}, {1, 1, 1, 1}, 4));
    testing::expect_error(
        ErrorKind::kCorruptData, [&] { read_all(*unsorted); },
        "row 1, entry 1: index " + std::to_string(bad));
  }
}

TEST(RowDecoderTest, ReadsBooleansAsOnes) {
  StoredCsr rows = make_rows<std::uint8_t>({0, 2}, {0, 1}, {1, 0}, 2);
  rows.dtype = DType::kBool;
  EXPECT_EQ(read_all(*make_memory_store(std::move(rows)), DType::kF32).values[0],
            (std::vector<double>{1, 0}));
}

TEST(RowDecoderTest, RoundsAsFarAsCastingGoes) {
  const auto floats = make_memory_store(make_rows<double>({0, 1}, {0}, {0.1}, 1));
  const auto large = make_memory_store(make_rows<double>({0, 1}, {0}, {1e39}, 1));
  const auto counts = make_memory_store(make_rows<std::int64_t>({0, 1}, {0}, {16'777'217}, 1));
  const auto wide = make_memory_store(make_rows<std::int64_t>({0, 1}, {0}, {1ll << 33}, 1));
  const auto refuses = [](const RowStore& store, DType out, Casting casting, const char* advice) {
    testing::expect_error(ErrorKind::kPrecision, [&] { read_all(store, out, casting); }, advice);
  };
  refuses(*floats, DType::kF32, Casting::kExact, "casting=\"round\"");
  refuses(*counts, DType::kF32, Casting::kRound, "casting=\"same_kind\"");
  EXPECT_EQ(read_all(*counts, DType::kF32, Casting::kSameKind).values[0][0], 16'777'216);
  for (const Casting casting : {Casting::kExact, Casting::kRound, Casting::kSameKind}) {
    refuses(*floats, DType::kI32, casting, "pass dtype=\"float64\"");
    refuses(*large, DType::kF32, casting, "pass dtype=\"float64\"");
    refuses(*wide, DType::kI32, casting, "pass dtype=\"int64\"");
    if (casting == Casting::kExact) continue;
    EXPECT_EQ(read_all(*floats, DType::kF32, casting).values[0][0], static_cast<double>(0.1f));
  }
}

TEST(MemoryStoreTest, RefusesPartsThatDoNotFit) {
  testing::expect_error(
      ErrorKind::kInvalidArgument,
      [] { make_memory_store(make_rows<float>({0, 2, 1}, {0}, {1}, 4)); }, "row 1");
  testing::expect_error(ErrorKind::kInvalidArgument,
                        [] { make_memory_store(make_rows<float>({0, 2}, {0}, {1}, 4)); });
  const auto empty =
      arrow::Table::MakeEmpty(arrow::schema({arrow::field("_index", arrow::utf8())})).ValueOrDie();
  testing::expect_error(
      ErrorKind::kInvalidArgument,
      [&] { make_memory_store(make_rows<float>({0, 1}, {0}, {1}, 4), empty); }, "obs");
}

}  // namespace
}  // namespace cellfeed::format::memory
