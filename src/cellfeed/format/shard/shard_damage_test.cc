// Bits flipped anywhere in a shard directory, and files and records exchanged: what is read is what
// was written, or an error.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/cells_file_layout.h"
#include "cellfeed/testing/flipped_bit.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/shard_reading.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;
using cellfeed::testing::flip_bit;
using cellfeed::testing::has_error;
using cellfeed::testing::read_everything;
using cellfeed::testing::ShardFixture;
using cellfeed::testing::ShardReading;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_fixture;
using cellfeed::testing::wrong_part;
using ::testing::HasSubstr;

constexpr int kFlips = 1700;        // in each of six directories
constexpr std::int64_t kRows = 30;  // of the directory whose records are moved

struct Kind {
  const char* name;
  DType dtype;
  float (*value_of)(float);
  Layout layout = Layout::kPacked;
};

std::string read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

void write_file(const std::string& path, const std::string& bytes) {
  std::ofstream(path, std::ios::binary).write(bytes.data(), std::ssize(bytes));
}

std::vector<std::string> paths_in(const std::string& dir) {
  std::vector<std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

class FlippedBits : public ::testing::TestWithParam<Kind> {};

TEST_P(FlippedBits, AreAnErrorOrHaveNoEffect) {
  const Kind& kind = GetParam();
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 14,
                             .shard_size = 7,
                             .n_genes = 60,
                             .layout = kind.layout,
                             .dtype = kind.dtype,
                             .value_of = kind.value_of});
  const ShardReading sound = read_everything(dir.path());
  ASSERT_FALSE(has_error(sound));
  const auto files = paths_in(dir.path());
  std::mt19937_64 random(11);
  int n_errors = 0;
  for (int i = 0; i < kFlips; ++i) {
    const std::string& path = files[random() % files.size()];
    std::size_t offset = random() % fs::file_size(path);
    // The zeros behind a header are many and alike.
    if (path.ends_with(".cells") && offset > 300 && offset < 4000) offset += kRecordsOffset;
    offset %= fs::file_size(path);
    const int bit = static_cast<int>(random() % 8);
    flip_bit(path, offset, bit);
    const ShardReading found = read_everything(dir.path());
    EXPECT_EQ(wrong_part(found, sound), "") << path << " byte " << offset << " bit " << bit;
    n_errors += has_error(found) ? 1 : 0;
    flip_bit(path, offset, bit);
    if (HasFailure()) return;
  }
  EXPECT_GT(n_errors, kFlips * 3 / 4);
  EXPECT_EQ(wrong_part(read_everything(dir.path()), sound), "");
  EXPECT_FALSE(has_error(read_everything(dir.path())));
}

INSTANTIATE_TEST_SUITE_P(
    Shards, FlippedBits,
    ::testing::Values(
        Kind{"counts", DType::kF32, [](float count) { return count; }},
        Kind{"scaled", DType::kF32, [](float count) { return count * 0.37F; }},
        Kind{"logarithms", DType::kF32, [](float count) { return std::log1p(count); }},
        Kind{"raw", DType::kF64, [](float count) { return std::sin(count * count); }},
        Kind{"integers", DType::kI32, [](float count) { return count - 3; }},
        Kind{"dense", DType::kF32, [](float count) { return std::log1p(count); }, Layout::kDense}),
    [](const auto& info) { return std::string(info.param.name); });

// Has the files of one directory under the names of another, as a conversion puts them there.
void replace_files(const std::string& dir, const std::string& other) {
  for (const std::string& path : paths_in(dir)) fs::remove(path);
  for (const std::string& path : paths_in(other))
    fs::copy_file(path, fs::path(dir) / fs::path(path).filename());
}

TEST(OpenReader, ReadsTheOldDataOrAnErrorWhenTheDirectoryIsWrittenAgain) {
  for (const Layout layout : {Layout::kPacked, Layout::kDense})
    for (const bool has_read : {false, true}) {
      TempDir dir, other;
      write_fixture(dir.path(), {.layout = layout});
      // Another obs too, because the second shard begins elsewhere.
      write_fixture(other.path(), {.shard_size = 12, .layout = layout, .value_of = [](float c) {
                                     return c + 1;
                                   }});
      const ShardReading sound = read_everything(dir.path());
      const auto stores = format::open_stores(dir.path(), {});
      if (has_read) cellfeed::testing::read_stores(stores);
      replace_files(dir.path(), other.path());
      const ShardReading found = cellfeed::testing::read_stores(stores);
      EXPECT_EQ(wrong_part(found, sound), "");
      EXPECT_EQ(has_error(found), !has_read) << "what was read before stays readable";
      EXPECT_THAT(found.at("shard 0 obs").error, HasSubstr(has_read ? "" : "written again"));
      EXPECT_EQ(found.at("shard 0 rows").error, "") << "these files were open";
    }
}

TEST(Verify, NeverReadsDamageAndOnlyThatIsLeftOut) {
  TempDir dir;
  write_fixture(dir.path(), {.value_of = [](float count) { return std::sin(count); }});
  const ShardReading sound = read_everything(dir.path());
  format::OpenOptions never;
  never.verify = "never";
  EXPECT_EQ(wrong_part(read_everything(dir.path(), never), sound), "");
  // A byte of the first value of the first record's dictionary.
  const std::string path = dir.file("shard_000000.cells");
  ASSERT_EQ(read_file(path)[kRecordsOffset] & 15, 3);
  flip_bit(path, kRecordsOffset + 3 + 4 + 1, 1);
  EXPECT_THAT(read_everything(dir.path()).at("shard 0 rows").error, HasSubstr("checksum"));
  EXPECT_NE(wrong_part(read_everything(dir.path(), never), sound), "");
  never.verify = "sometimes";
  EXPECT_THAT(read_everything(dir.path(), never).at("open").error, HasSubstr("sometimes"));
}

// Whatever was moved where: an error.
void expect_refused(const std::string& dir, const ShardReading& sound, const std::string& what) {
  const ShardReading found = read_everything(dir);
  EXPECT_EQ(wrong_part(found, sound), "") << what;
  EXPECT_TRUE(has_error(found)) << what;
}

TEST(Exchanged, FilesOfTwoShardsAreRefused) {
  for (const Layout layout : {Layout::kPacked, Layout::kDense}) {
    TempDir dir;
    write_fixture(dir.path(), {.n_cells = 20, .layout = layout});
    const ShardReading sound = read_everything(dir.path());
    for (const char* extension : {"cells", "npy", "parquet", "arrow"}) {
      const std::string a = dir.file(std::string("shard_000000.") + extension);
      const std::string b = dir.file(std::string("shard_000001.") + extension);
      if (!fs::exists(a)) continue;
      const std::string bytes = read_file(a);
      write_file(a, read_file(b));
      expect_refused(dir.path(), sound, a);
      write_file(a, bytes);
    }
    EXPECT_FALSE(has_error(read_everything(dir.path())));
  }
}

TEST(Exchanged, FilesOfAnotherDataSetAreRefused) {
  for (const Layout layout : {Layout::kPacked, Layout::kDense}) {
    TempDir dir, other;
    write_fixture(dir.path(), {.layout = layout});
    write_fixture(other.path(),
                  {.n_cells = 24, .layout = layout, .value_of = [](float c) { return c + 1; }});
    const ShardReading sound = read_everything(dir.path());
    for (const std::string& path : paths_in(dir.path())) {
      const std::string name = fs::path(path).filename().string();
      const std::string bytes = read_file(path);
      const std::string others = read_file(other.file(name));
      if (bytes == others) continue;  // the genes, and the obs of full shards, are the same
      write_file(path, others);
      expect_refused(dir.path(), sound, name);
      write_file(path, bytes);
    }
  }
}

// Records that are sound in themselves, in the wrong places; segments and tables are not looked at
// by readers.
class Records : public ::testing::Test {
 protected:
  void SetUp() override {
    // Short rows, so that many records are of one length.
    write_fixture(dir_.path(), {.n_cells = kRows, .shard_size = kRows, .n_genes = 4});
    path_ = dir_.file("shard_000000.cells");
    sound_ = read_everything(dir_.path());
    bytes_ = read_file(path_);
    header_ = parse_header(std::as_bytes(std::span(bytes_)).first(kHeaderBytes), std::ssize(bytes_),
                           path_);
  }
  std::uint64_t entry(std::int64_t row) const {
    std::uint64_t value;
    std::memcpy(&value, bytes_.data() + header_.row_table_offset() + 8 * row, sizeof(value));
    return value;
  }
  void set_entry(std::string& bytes, std::int64_t row, std::uint64_t value) const {
    std::memcpy(bytes.data() + header_.row_table_offset() + 8 * row, &value, sizeof(value));
  }
  // Replaced, so that what is mapped stays.
  void expect_damage_found(const std::string& bytes, const std::string& what) {
    fs::remove(path_);
    write_file(path_, bytes);
    const ShardReading found = read_everything(dir_.path());
    EXPECT_EQ(wrong_part(found, sound_), "") << what;
    EXPECT_THAT(found.at("shard 0 rows").error, HasSubstr("row ")) << what;
  }

  TempDir dir_;
  std::string path_, bytes_;
  CellsHeader header_;
  ShardReading sound_;
};

TEST_F(Records, ThatWereExchangedAreRefused) {
  int n_exchanged = 0;
  for (std::int64_t a = 0; a < kRows; ++a)
    for (std::int64_t b = a + 1; b < kRows; ++b) {
      const auto begin = [&](std::int64_t row) {
        return static_cast<std::size_t>(kRecordsOffset + row_offset(entry(row)));
      };
      const std::size_t length = begin(a + 1) - begin(a);
      if (length != begin(b + 1) - begin(b) || row_nnz(entry(a)) != row_nnz(entry(b))) continue;
      std::string bytes = bytes_;
      for (std::size_t i = 0; i < length; ++i) std::swap(bytes[begin(a) + i], bytes[begin(b) + i]);
      if (bytes == bytes_) continue;
      expect_damage_found(bytes, std::to_string(a) + " with " + std::to_string(b));
      ++n_exchanged;
    }
  EXPECT_GT(n_exchanged, 5);
}

TEST_F(Records, WhoseTableEntriesAreWrongAreRefused) {
  for (std::int64_t row = 0; row + 1 < kRows; ++row) {
    std::string bytes = bytes_;
    set_entry(bytes, row, entry(row + 1));
    expect_damage_found(bytes, "the entry of the next row in place of " + std::to_string(row));
    bytes = bytes_;
    set_entry(bytes, row, entry(row) ^ 1);
    expect_damage_found(bytes, "another number of non-zeros in " + std::to_string(row));
    bytes = bytes_;
    set_entry(bytes, row, pack_row(row_offset(entry(row)) + 1, row_nnz(entry(row))));
    expect_damage_found(bytes, "another offset of " + std::to_string(row));
  }
}

}  // namespace
}  // namespace cellfeed::format::shard
