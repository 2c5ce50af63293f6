// PackedStore beside the store whose rows it keeps: while it keeps them, and once all are there.
#include "cellfeed/convert/cache/packed_store.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <bit>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <numeric>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/format/memory/memory_store.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/kept_store.h"
#include "cellfeed/testing/random_csr.h"
#include "cellfeed/testing/row_store_conformance.h"
#include "cellfeed/testing/slow_row_store.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::convert {
namespace {

namespace fs = std::filesystem;
using ::testing::HasSubstr;

// A file that stands for the one that rows are read from, and the folder of its caches.
struct Place {
  testing::TempDir dir;
  std::string source = dir.write("source", std::string_view("version 1"));

  std::shared_ptr<PackedLog> open_log(const format::RowStore& store,
                                      const PackedLogOptions& options = {}) const {
    const FileVersion version = look_at_file(source);
    PackedPlace place;
    place.caches.path = dir.file("caches");
    place.of_matrix = "X.packed-";
    place.identity = version.mark;
    place.name = "X.packed-" + std::to_string(version.mark);
    return std::make_shared<PackedLog>(place, version,
                                       PackedMatrix{.identity = place.identity,
                                                    .n_rows = store.info().n_rows,
                                                    .n_genes = store.info().n_cols,
                                                    .value_dtype = store.info().value_dtype},
                                       options);
  }
  std::vector<fs::path> files(const std::string& ending) const {
    std::vector<fs::path> found;
    for (const auto& entry : fs::recursive_directory_iterator(dir.file("caches")))
      if (entry.path().extension() == ending) found.push_back(entry.path());
    return found;
  }
};

// Counts rows that are asked of it.
class CountingStore final : public format::ForwardingStore {
 public:
  using ForwardingStore::ForwardingStore;
  std::unique_ptr<format::FetchedRows> begin(std::span<const std::int64_t> rows,
                                             const format::ReadContext& context) const override {
    n_rows += std::ssize(rows);
    return ForwardingStore::begin(rows, context);
  }
  mutable std::atomic<std::int64_t> n_rows{0};
};

std::shared_ptr<CountingStore> counting(const matrix::CsrBlock& block, DType stored = DType::kF32) {
  return std::make_shared<CountingStore>(
      format::memory::make_memory_store(format::memory::make_stored_csr(block, stored)));
}

std::vector<std::int64_t> all_rows_of(const format::RowStore& store) {
  std::vector<std::int64_t> rows(static_cast<std::size_t>(store.info().n_rows));
  std::iota(rows.begin(), rows.end(), 0);
  return rows;
}

// Some rows at a time, as they come to segments.
void read_all(const format::RowStore& store) {
  CsrPiece piece;
  for (std::int64_t row = 0; row < store.info().n_rows; row += 50)
    read_rows(store, row, std::min(store.info().n_rows, row + 50), piece);
}

testing::RowStoreFactory keeping(bool is_complete) {
  return [is_complete](const matrix::CsrBlock& block, DType stored) {
    const auto place = std::make_shared<Place>();
    const auto source = counting(block, stored);
    const auto log = place->open_log(*source, {.segment_bytes = 1000});
    auto store = std::make_unique<PackedStore>(source, log);
    if (is_complete && store->info().n_rows > 0) {
      read_all(*store);
      log->flush();
      EXPECT_TRUE(log->is_complete());
      store = std::make_unique<PackedStore>(source, place->open_log(*source));
    }
    return std::make_unique<testing::KeptStore>(place, std::move(store));
  };
}

const bool registered[] = {
    testing::register_row_store_conformance("packed_while_it_fills", keeping(false)),
    testing::register_row_store_conformance("packed_complete", keeping(true)),
};

class Packed : public ::testing::Test {
 protected:
  std::unique_ptr<PackedStore> open(const PackedLogOptions& options = {}) {
    return std::make_unique<PackedStore>(source_, place_.open_log(*source_, options));
  }
  // Reads and keeps all rows.
  void fill() {
    const auto store = open({.segment_bytes = 2000});
    read_all(*store);
    store->log().flush();
    source_->n_rows = 0;
  }
  // Rows of the source, and of another store, as doubles and exactly.
  void expect_same_rows(const format::RowStore& store) {
    const auto rows = all_rows_of(*source_);
    const auto wanted = format::fetch_rows(*memory_, rows);
    const auto found = format::fetch_rows(store, rows);
    EXPECT_EQ(testing::decode_rows(*found), testing::decode_rows(*wanted));
  }
  void flip_byte(const fs::path& path, std::int64_t offset) {
    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekg(offset);
    const char byte = static_cast<char>(file.get() ^ 0x20);
    file.seekp(offset);
    file.put(byte);
  }

  Place place_;
  matrix::CsrBlock block_ = testing::random_csr({.n_rows = 500});
  std::shared_ptr<CountingStore> source_ = counting(block_);
  std::shared_ptr<const format::RowStore> memory_ = counting(block_);
};

TEST_F(Packed, RowsAreAskedOfTheSourceOnce) {
  const auto store = open();
  read_all(*store);
  EXPECT_EQ(source_->n_rows, 500);
  store->log().flush();
  EXPECT_TRUE(store->log().is_complete());
  expect_same_rows(*store);
  EXPECT_EQ(source_->n_rows, 500);
}

TEST_F(Packed, AnotherRunReadsWhatWasKept) {
  fill();
  EXPECT_GT(place_.files(".cells").size(), 3);
  const auto store = open();
  EXPECT_TRUE(store->log().is_complete());
  expect_same_rows(*store);
  EXPECT_EQ(source_->n_rows, 0);
}

TEST_F(Packed, OnlyRowsThatAreAskedForAreKept) {
  const auto store = open();
  CsrPiece piece;
  const std::vector<std::int64_t> some{7, 400, 7, 3};
  read_rows(*store, some, piece);
  store->log().flush();
  EXPECT_EQ(store->log().n_kept(), 3);
  expect_same_rows(*store);
}

TEST_F(Packed, ClosingWritesWhatWasRead) {
  read_all(*open());
  EXPECT_TRUE(open()->log().is_complete());
}

TEST_F(Packed, OneThatGetsNoMoreRowsWritesThemByItself) {
  const auto store = open({.idle_ms = 20});
  read_all(*store);
  for (int i = 0; i < 3000 && !store->log().is_complete(); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_TRUE(store->log().is_complete());
}

TEST_F(Packed, TwoAtOnceFindEachOthersRows) {
  const auto one = open(), other = open();
  read_all(*one);
  one->log().flush();
  std::this_thread::sleep_for(std::chrono::milliseconds(1100));
  CsrPiece piece;
  read_rows(*other, std::vector<std::int64_t>{0}, piece);
  EXPECT_TRUE(other->log().is_complete());
  EXPECT_EQ(source_->n_rows, 500);
  expect_same_rows(*other);
}

TEST_F(Packed, AChangedFileHasOtherRows) {
  fill();
  place_.dir.write("source", std::string_view("version 2"));
  // As large as before, and on a fast machine of the same tick of the file system's clock.
  fs::last_write_time(place_.source, fs::file_time_type::clock::now() + std::chrono::hours(1));
  const auto store = open();
  EXPECT_EQ(store->log().n_kept(), 0);
  EXPECT_EQ(place_.files(".cells").size(), 0) << "rows of the old version are still there";
}

TEST_F(Packed, AFileThatChangesMeanwhileIsNotKept) {
  const auto store = open({.idle_ms = 600'000});  // its rows are written once it has changed
  read_all(*store);
  place_.dir.write("source", std::string_view("another version"));
  store->log().flush();
  EXPECT_EQ(store->log().n_kept(), 0);
  EXPECT_EQ(place_.files(".cells").size(), 0);
  EXPECT_THAT(store->log().take_warning(), HasSubstr("the file changed"));
  EXPECT_EQ(store->log().take_warning(), "");
  expect_same_rows(*store);
}

TEST_F(Packed, ADamagedRecordIsReadFromTheSource) {
  fill();
  const auto store = open();
  flip_byte(place_.files(".cells").front(), 4096 + 30);
  expect_same_rows(*store);
  EXPECT_GT(source_->n_rows, 0);
  EXPECT_THAT(store->log().take_warning(), HasSubstr("damaged"));
  read_all(*store);
  store->log().flush();
  EXPECT_TRUE(store->log().is_complete()) << "damaged rows are kept again";
  EXPECT_TRUE(open()->log().is_complete());
}

TEST_F(Packed, EveryFlippedByteOfASegmentGivesTheRowsOfTheSource) {
  fill();
  const fs::path cells = place_.files(".cells").front();
  fs::path list = cells;
  list.replace_extension(".rows");
  const auto kept = testing::TempDir::read_all(cells);
  const auto rows = testing::TempDir::read_all(list);
  for (const auto& [path, size] : {std::pair{cells, std::ssize(kept)}, {list, std::ssize(rows)}})
    for (std::int64_t at = 0; at < size; at += size / 150 + 1) {
      std::ofstream(cells, std::ios::binary)
          .write(reinterpret_cast<const char*>(kept.data()), std::ssize(kept));
      std::ofstream(list, std::ios::binary)
          .write(reinterpret_cast<const char*>(rows.data()), std::ssize(rows));
      flip_byte(path, at);
      expect_same_rows(*open());
    }
}

TEST_F(Packed, ACutSegmentIsNone) {
  fill();
  for (const fs::path& path : place_.files(".cells"))
    fs::resize_file(path, fs::file_size(path) / 2);
  const auto store = open();
  EXPECT_EQ(store->log().n_kept(), 0);
  expect_same_rows(*store);
}

TEST_F(Packed, SegmentsOfAnotherMatrixAreNotTaken) {
  fill();
  block_ = testing::random_csr({.n_rows = 500, .n_cols = 301, .seed = 2});
  source_ = counting(block_);
  memory_ = counting(block_);
  const auto store = open();
  EXPECT_EQ(store->log().n_kept(), 0);
  expect_same_rows(*store);
}

TEST_F(Packed, AForkedChildKeepsItsOwnRows) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  const auto store = open();
  CsrPiece piece;
  read_rows(*store, std::vector<std::int64_t>{1, 2, 3}, piece);
  const int code = testing::run_in_child([&] {
    read_all(*store);
    store->log().flush();
    return store->log().is_complete();
  });
  EXPECT_EQ(code, 0);
  store->log().flush();
  EXPECT_EQ(store->log().n_kept(), 3);
  EXPECT_TRUE(open()->log().is_complete());
}

TEST_F(Packed, FloatsAreKeptBitForBit) {
  // A signalling NaN, a NaN with a sign, -0.0, the smallest number.
  const std::vector<std::uint32_t> bits{0x7f800001, 0xffc00123, 0x80000000, 1};
  format::memory::StoredCsr rows;
  rows.n_rows = 1;
  rows.n_cols = 9;
  rows.indptr.reset(2);
  rows.indptr[0] = 0, rows.indptr[1] = 4;
  rows.indices.reset(4);
  std::iota(rows.indices.begin(), rows.indices.end(), 2);
  rows.values.reset(16);
  std::memcpy(rows.values.data(), bits.data(), 16);
  source_ = std::make_shared<CountingStore>(format::memory::make_memory_store(std::move(rows)));
  for (const DType first_as : {DType::kF64, DType::kF32}) {
    auto store = open();
    CsrPiece piece;
    read_rows(*store, std::vector<std::int64_t>{0}, first_as, Casting::kSameKind, piece);
    store->log().flush();
    read_rows(*store, std::vector<std::int64_t>{0}, DType::kF32, Casting::kExact, piece);
    EXPECT_EQ(std::memcmp(piece.values.data(), bits.data(), 16), 0);
    ASSERT_TRUE(store->log().is_complete());
    store.reset();
    fs::remove_all(place_.dir.file("caches"));
  }
}

TEST_F(Packed, ValuesThatDoNotFitAreNamedByTheSource) {
  block_ = testing::random_csr(
      {.n_rows = 20, .density = 1, .empty_rows = 0, .max_value = 1 << 26, .dtype = DType::kI32});
  source_ = counting(block_, DType::kI32);
  fill();
  const auto store = open();
  CsrPiece piece;
  try {
    read_rows(*store, all_rows_of(*store), DType::kF32, Casting::kExact, piece);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kPrecision);
    EXPECT_EQ(error.path(), source_->info().path);
  }
  EXPECT_EQ(store->log().take_warning(), "");
}

TEST_F(Packed, AllRowsBecomeAShardDirectory) {
  fill();
  const auto store = open();
  ASSERT_EQ(store->shards_dir(), store->log().shards_dir());
  EXPECT_EQ(store->log().take_warning(), "");
  expect_same_rows(*store);
  const auto shards = format::open_stores(store->log().shards_dir(), {});
  ASSERT_EQ(shards.size(), 1);
  expect_same_rows(*shards.front());
  EXPECT_TRUE(place_.files(".rows").empty());
  expect_same_rows(*open());
  EXPECT_EQ(source_->n_rows, 0);
}

TEST_F(Packed, ShardsThatWereNotFinishedAreWrittenAnew) {
  fill();
  {
    const auto store = open();
    fs::remove(store->shards_dir() + "/shard_metadata.json");
  }
  EXPECT_EQ(open()->log().n_kept(), 0) << "shards without a manifest are none";
  fill();
  const auto store = open();
  EXPECT_NE(store->shards_dir(), "");
  expect_same_rows(*open());
}

TEST_F(Packed, ADamagedShardIsReadFromTheSource) {
  fill();
  flip_byte(open()->shards_dir() + "/shard_000000.cells", 4096 + 30);
  const auto store = open();
  expect_same_rows(*store);
  EXPECT_GT(source_->n_rows, 0);
  EXPECT_THAT(store->log().take_warning(), HasSubstr("damaged"));
  expect_same_rows(*open());
}

TEST_F(Packed, AFolderThatCannotBeMadeIsNamed) {
  place_.dir.write("caches", std::string_view("in the way"));
  try {
    open();
    FAIL();
  } catch (const Error& error) {
    EXPECT_THAT(error.what(), HasSubstr("caches"));
  }
}

}  // namespace
}  // namespace cellfeed::convert
