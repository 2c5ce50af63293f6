// Transposing against entries made by hand and put in rows by a map.
#include <arrow/api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <map>
#include <numeric>
#include <optional>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/transpose/transposed_store.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::convert {
namespace {

using testing::TempDir;

struct Entry {
  std::uint32_t row;
  std::int32_t column;
  float value;
};

// Entries in pieces of a fixed length.
class FakeEntries final : public format::EntryStore {
 public:
  FakeEntries(std::int64_t n_rows, std::int64_t n_cols, std::vector<Entry> entries)
      : all_(std::move(entries)) {
    info_.path = "made.h5ad";
    info_.layer = "X";
    info_.n_rows = n_rows;
    info_.n_cols = n_cols;
    info_.nnz = std::ssize(all_);
    info_.value_dtype = DType::kF32;
    for (std::int64_t i = 0; i < n_cols; ++i) genes_.names.push_back(std::to_string(i));
  }
  const format::StoreInfo& info() const override { return info_; }
  const matrix::GeneAxis& genes() const override { return genes_; }
  std::vector<std::string> obs_names() const override { return {}; }
  matrix::FixedColumn obs_column(const std::string&) const override { return {}; }
  std::shared_ptr<arrow::Table> read_obs(std::int64_t, std::int64_t) const override { return {}; }
  std::shared_ptr<arrow::Table> read_var() const override { return {}; }
  std::uint64_t fingerprint() const override { return 1; }
  std::string storage() const override { return "by chance"; }
  std::vector<std::string> files() const override { return {}; }
  std::int64_t n_pieces() const override { return (info_.nnz + kPiece - 1) / kPiece; }
  std::int64_t piece_bytes() const override { return kPiece * 12; }
  // What the second pass finds in the place of the first entry's row.
  void change_row(std::uint32_t row) { changed_row_ = row; }
  // How often columns and values of a piece were read, all pieces together.
  void count_reads(std::atomic<int>& counter) { counter_ = &counter; }
  void read_piece(std::int64_t piece, format::EntryParts parts,
                  format::Entries& out) const override {
    const std::int64_t begin = piece * kPiece;
    if (counter_ != nullptr && parts == format::EntryParts::kAll) ++*counter_;
    out.n = std::min(kPiece, info_.nnz - begin);
    out.rows.reset(static_cast<std::size_t>(out.n));
    out.columns.reset(static_cast<std::size_t>(out.n));
    out.values.reset(static_cast<std::size_t>(out.n) * sizeof(float));
    for (std::int64_t i = 0; i < out.n; ++i) {
      const Entry& entry = all_[static_cast<std::size_t>(begin + i)];
      out.rows.data()[i] = entry.row;
      out.columns.data()[i] = entry.column;
      reinterpret_cast<float*>(out.values.data())[i] = entry.value;
    }
    if (changed_row_ && piece == 0 && parts == format::EntryParts::kAll)
      out.rows.data()[0] = *changed_row_;
  }

 private:
  static constexpr std::int64_t kPiece = 1000;
  std::vector<Entry> all_;
  std::optional<std::uint32_t> changed_row_;
  std::atomic<int>* counter_ = nullptr;
  format::StoreInfo info_;
  matrix::GeneAxis genes_;
};

using Rows = std::vector<std::map<std::int32_t, double>>;

Rows rows_of(std::int64_t n_rows, const std::vector<Entry>& entries) {
  Rows rows(static_cast<std::size_t>(n_rows));
  for (const Entry& entry : entries) rows[entry.row][entry.column] += entry.value;
  return rows;
}

Rows transposed(std::int64_t n_rows, std::int64_t n_cols, const std::vector<Entry>& entries,
                std::int64_t memory_bytes) {
  const TempDir dir;
  TransposedStore store(std::make_unique<FakeEntries>(n_rows, n_cols, entries));
  exec::ThreadPool pool(3);
  store.transpose(pool, {.dir = io::Directory(dir.path()), .memory_bytes = memory_bytes});
  std::vector<std::int64_t> wanted(static_cast<std::size_t>(n_rows));
  std::iota(wanted.begin(), wanted.end(), 0);
  const auto decoded = testing::decode_rows(*format::fetch_rows(store, wanted));
  Rows rows(wanted.size());
  for (std::size_t row = 0; row < rows.size(); ++row)
    for (std::size_t i = 0; i < decoded.indices[row].size(); ++i)
      rows[row].emplace(decoded.indices[row][i], decoded.values[row][i]);
  return rows;
}

std::vector<Entry> random_entries(std::uint32_t n_rows, std::int32_t n_cols, int n) {
  std::mt19937 random(7);
  std::vector<Entry> entries;
  for (int i = 0; i < n; ++i)
    entries.push_back({static_cast<std::uint32_t>(random() % n_rows),
                       static_cast<std::int32_t>(random() % static_cast<std::uint32_t>(n_cols)),
                       static_cast<float>(random() % 50)});
  return entries;
}

TEST(Transpose, EntriesInAnyOrderBecomeRowsAndDuplicatesAreSummed) {
  const auto entries = random_entries(70, 30, 20'000);
  EXPECT_EQ(transposed(70, 30, entries, 64 << 20), rows_of(70, entries));
}

TEST(Transpose, WhatDoesNotFitInMemoryGoesThroughAFile) {
  const auto entries = random_entries(3000, 200, 900'000);
  EXPECT_EQ(transposed(3000, 200, entries, 1 << 20), rows_of(3000, entries));
}

TEST(Transpose, MoreColumnsOrRowsThanTwoBytesCount) {
  auto entries = random_entries(200'000, 100'000, 5000);
  entries.push_back({199'999, 99'999, 3});
  EXPECT_EQ(transposed(200'000, 100'000, entries, 1 << 20), rows_of(200'000, entries));
}

TEST(Transpose, EmptyMatricesAndEmptyRowsAreLegal) {
  EXPECT_EQ(transposed(5, 3, {}, 1 << 20), Rows(5));
  EXPECT_EQ(transposed(0, 3, {}, 1 << 20), Rows());
}

std::vector<Entry> by_row(std::vector<Entry> entries) {
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return a.row < b.row; });
  return entries;
}

TEST(Transpose, EntriesThatAreStoredRowAfterRowAreReadOnce) {
  for (const std::int64_t memory_bytes : {64 << 20, 1 << 20}) {
    const auto entries = by_row(random_entries(3000, 200, 900'000));
    EXPECT_EQ(transposed(3000, 200, entries, memory_bytes), rows_of(3000, entries));
    const TempDir dir;
    std::atomic<int> reads = 0;
    auto counted = std::make_unique<FakeEntries>(3000, 200, entries);
    counted->count_reads(reads);
    const auto n_pieces = counted->n_pieces();
    TransposedStore store(std::move(counted));
    exec::ThreadPool pool(2);
    store.transpose(pool, {.dir = io::Directory(dir.path()), .memory_bytes = memory_bytes});
    EXPECT_EQ(reads, n_pieces);
  }
}

TEST(Transpose, OneEntryOutOfOrderWhereverItIsEndsInItsRow) {
  const auto sound = by_row(random_entries(3000, 200, 100'000));
  for (const std::size_t place : {1ul, 999ul, 1000ul, 50'500ul, 99'999ul}) {
    auto entries = sound;
    entries[place].row = entries[place].row == 0 ? 2999 : 0;
    EXPECT_EQ(transposed(3000, 200, entries, 1 << 20), rows_of(3000, entries)) << place;
  }
}

TEST(Transpose, RowsOfOneLengthAndOfManyPiecesStayApart) {
  std::vector<Entry> entries;
  for (std::uint32_t row : {3u, 4u, 199'999u})
    for (std::int32_t i = 0; i < 300'000; ++i)
      entries.push_back({row, i % 70'000, static_cast<float>(row % 7 + 1)});
  EXPECT_EQ(transposed(200'000, 70'000, entries, 1 << 20), rows_of(200'000, entries));
}

TEST(Transpose, RowsAreReadAfterTransposingOnly) {
  const TransposedStore store(std::make_unique<FakeEntries>(2, 2, std::vector<Entry>{{0, 1, 2}}));
  EXPECT_THROW(store.begin(std::vector<std::int64_t>{0}, {}), Error);
}

TEST(Transpose, IsStopped) {
  const TempDir dir;
  TransposedStore store(std::make_unique<FakeEntries>(9, 9, random_entries(9, 9, 5000)));
  exec::ThreadPool pool(1);
  std::stop_source stop;
  stop.request_stop();
  EXPECT_THROW(store.transpose(pool, {.dir = io::Directory(dir.path()),
                                      .memory_bytes = 1 << 20,
                                      .stop = stop.get_token()}),
               Error);
}

TEST(Transpose, RefusesRowsThatHaveOtherEntriesThanWereCounted) {
  auto entries = random_entries(5000, 40, 400'000);
  for (const std::uint32_t row : {entries[0].row + 1, (entries[0].row + 2500) % 5000}) {
    const TempDir dir;
    auto changing = std::make_unique<FakeEntries>(5000, 40, entries);
    changing->change_row(row % 5000);
    TransposedStore store(std::move(changing));
    exec::ThreadPool pool(2);
    store.transpose(pool, {.dir = io::Directory(dir.path()), .memory_bytes = 64 << 20});
    std::vector<std::int64_t> wanted(5000);
    std::iota(wanted.begin(), wanted.end(), 0);
    EXPECT_THROW(format::fetch_rows(store, wanted), Error);
  }
}

}  // namespace
}  // namespace cellfeed::convert
