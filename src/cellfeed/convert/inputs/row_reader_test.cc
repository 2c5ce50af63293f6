#include "cellfeed/convert/inputs/row_reader.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/format/memory/memory_store.h"

namespace cellfeed::convert {
namespace {

using ::testing::ElementsAre;

template <typename T>
std::unique_ptr<format::RowStore> store_of(std::vector<std::int64_t> indptr,
                                           std::vector<std::int32_t> indices, std::vector<T> values,
                                           std::int64_t n_cols) {
  format::memory::StoredCsr rows;
  rows.n_rows = std::ssize(indptr) - 1;
  rows.n_cols = n_cols;
  rows.dtype = dtype_of<T>();
  rows.indptr.reset(indptr.size());
  rows.indices.reset(indices.size());
  rows.values.reset(values.size() * sizeof(T));
  std::copy(indptr.begin(), indptr.end(), rows.indptr.begin());
  std::copy(indices.begin(), indices.end(), rows.indices.begin());
  std::memcpy(rows.values.data(), values.data(), values.size() * sizeof(T));
  return format::memory::make_memory_store(std::move(rows));
}

std::vector<std::int32_t> indices_of(const CsrPiece& piece) {
  return {piece.indices.begin(), piece.indices.begin() + piece.nnz()};
}
template <typename T>
std::vector<T> values_of(const CsrPiece& piece) {
  const T* values = reinterpret_cast<const T*>(piece.values.data());
  return {values, values + piece.nnz()};
}

TEST(RowReader, SumsRepeatedEntriesAndLeavesNoGaps) {
  const auto store =
      store_of<float>({0, 3, 3, 7, 8}, {4, 1, 4, 2, 0, 2, 2, 5}, {1, 2, 3, 4, 5, 6, 7, 8}, 6);
  CsrPiece piece;
  read_rows(*store, 0, 4, piece);
  EXPECT_THAT(piece.indptr, ElementsAre(0, 2, 2, 4, 5));
  EXPECT_THAT(indices_of(piece), ElementsAre(1, 4, 0, 2, 5));
  EXPECT_THAT(values_of<float>(piece), ElementsAre(2, 4, 5, 17, 8));
}

TEST(RowReader, ReadsRowsInAnyOrderAndUsesItsBuffersAgain) {
  const auto store =
      store_of<std::int64_t>({0, 1, 3}, {0, 1, 2}, {7, std::int64_t{1} << 60, -9}, 3);
  CsrPiece piece;
  read_rows(*store, 0, 2, piece);
  const std::vector<std::int64_t> rows = {1, 0, 1};
  read_rows(*store, rows, piece);
  EXPECT_EQ(piece.dtype, DType::kI64);
  EXPECT_THAT(piece.indptr, ElementsAre(0, 2, 3, 5));
  EXPECT_THAT(values_of<std::int64_t>(piece),
              ElementsAre(std::int64_t{1} << 60, -9, 7, std::int64_t{1} << 60, -9));
}

TEST(RowReader, AUint64ThatInt64CannotHoldIsAnError) {
  const auto store = store_of<std::uint64_t>({0, 1}, {0}, {std::uint64_t{1} << 63}, 1);
  CsrPiece piece;
  try {
    read_rows(*store, 0, 1, piece);
    FAIL() << "2^63 became something else";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecision);
  }
}

TEST(RowReader, RenumbersDropsAndSortsColumns) {
  const auto store = store_of<float>({0, 3, 3, 5}, {0, 2, 69, 1, 69}, {1, 2, 3, 4, 5}, 70);
  CsrPiece piece;
  read_rows(*store, 0, 3, piece);
  std::vector<std::int32_t> map(70, -1);
  map[0] = 129;
  map[2] = 0;
  map[69] = 64;
  renumber_columns(piece, map, 130);
  EXPECT_THAT(piece.indptr, ElementsAre(0, 3, 3, 4));
  EXPECT_THAT(indices_of(piece), ElementsAre(0, 64, 129, 64));
  EXPECT_THAT(values_of<float>(piece), ElementsAre(2, 3, 1, 5));
}

}  // namespace
}  // namespace cellfeed::convert
