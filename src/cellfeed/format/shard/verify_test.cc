// verify finds every flipped byte of every file, and files that are missing, exchanged or not ours.
#include "cellfeed/format/shard/verify.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/flipped_bit.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;
using cellfeed::testing::flip_bit;
using cellfeed::testing::ShardFixture;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_fixture;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

// The padding of a .cells file is long and all of one kind, so that a sample of it will do.
std::int64_t step_at(const std::string& name, std::int64_t offset) {
  return name.ends_with(".cells") && offset >= 300 && offset < 4000 ? 37 : 1;
}

std::int64_t flip_every_byte(const std::string& dir) {
  std::int64_t n_flips = 0;
  for (const auto& entry : fs::directory_iterator(dir)) {
    const std::string path = entry.path().string();
    const std::string name = entry.path().filename().string();
    const auto size = static_cast<std::int64_t>(fs::file_size(path));
    for (std::int64_t offset = 0; offset < size; offset += step_at(name, offset)) {
      const int bit = static_cast<int>(offset % 8);
      flip_bit(path, offset, bit);
      const auto damages = verify_shard_dir(dir);
      EXPECT_FALSE(damages.empty()) << name << " byte " << offset;
      bool named = false;
      for (const auto& damage : damages)
        named |= damage.file == name && damage.begin <= offset &&
                 (offset < damage.end || damage.end == 0);
      EXPECT_TRUE(named) << name << " byte " << offset;
      flip_bit(path, offset, bit);
      ++n_flips;
      if (::testing::Test::HasFailure()) return n_flips;
    }
  }
  EXPECT_THAT(verify_shard_dir(dir), IsEmpty());
  return n_flips;
}

TEST(Verify, FindsEveryFlippedByteOfPackedShards) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 4, .shard_size = 4, .n_genes = 12});
  EXPECT_GT(flip_every_byte(dir.path()), 4000);
}

TEST(Verify, FindsEveryFlippedByteOfDenseShards) {
  TempDir dir;
  write_fixture(dir.path(),
                {.n_cells = 3, .shard_size = 3, .n_genes = 12, .layout = Layout::kDense});
  EXPECT_GT(flip_every_byte(dir.path()), 3000);
}

TEST(Verify, NamesTheSegment) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 10, .n_genes = 200, .segment_bytes = 150});
  flip_bit(dir.file("shard_000000.cells"), 4096 + 400, 0);
  const auto damages = verify_shard_dir(dir.path());
  ASSERT_EQ(damages.size(), 1u);
  EXPECT_EQ(damages[0].shard, 0);
  EXPECT_GE(damages[0].segment, 1);
  EXPECT_LE(damages[0].begin, 4096 + 400);
  EXPECT_GT(damages[0].end, 4096 + 400);
  EXPECT_THAT(damages[0].what, HasSubstr("segment"));
}

TEST(Verify, ReportsMissingExchangedAndUnlistedFiles) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 40});
  fs::remove(dir.file("shard_000003.parquet"));
  fs::rename(dir.file("shard_000000.cells"), dir.file("moved"));
  fs::rename(dir.file("shard_000001.cells"), dir.file("shard_000000.cells"));
  fs::rename(dir.file("moved"), dir.file("shard_000001.cells"));
  std::ofstream(dir.file("shard_000009.cells")) << "stray";
  std::ofstream(dir.file("notes.txt")) << "the user's own";
  const auto damages = verify_shard_dir(dir.path());
  ASSERT_EQ(damages.size(), 4u);
  EXPECT_EQ(damages[0].file, "shard_000009.cells");
  EXPECT_THAT(damages[1].what, HasSubstr("this file is shard 1"));
  EXPECT_THAT(damages[2].what, HasSubstr("this file is shard 0"));
  EXPECT_EQ(damages[3].file, "shard_000003.parquet");
  EXPECT_THAT(damages[3].what, HasSubstr("missing"));
}

TEST(Verify, WhatAWriterLeftOrIsWritingIsNoDamage) {
  TempDir dir;
  write_fixture(dir.path(), {.n_cells = 40});
  for (const char* name :
       {"shard_000000.g1.cells", "genes.g1.parquet", "shard_metadata.partial.jsonl",
        "shard_000001.g1.cells.tmp-1-0123456789abcdef"})
    std::ofstream(dir.file(name)) << "begun";
  EXPECT_TRUE(verify_shard_dir(dir.path()).empty());
}

TEST(Verify, ReportsProgressToTheLastByte) {
  TempDir dir;
  write_fixture(dir.path(), {});
  std::int64_t done = 0;
  std::int64_t total = 0;
  verify_shard_dir(dir.path(), [&](std::int64_t d, std::int64_t t) {
    EXPECT_GE(d, done);
    done = d;
    total = t;
  });
  EXPECT_GT(done, 0);
  EXPECT_EQ(done, total);
}

TEST(Verify, ThrowsWithoutAManifest) {
  TempDir dir;
  EXPECT_THROW(verify_shard_dir(dir.path()), Error);
}

}  // namespace
}  // namespace cellfeed::format::shard
