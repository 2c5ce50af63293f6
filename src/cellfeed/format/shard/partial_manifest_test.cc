// A conversion killed at any moment and resumed gives the bytes of an undisturbed one.
#include "cellfeed/format/shard/partial_manifest.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/testing/shard_fixture.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::format::shard {
namespace {

namespace fs = std::filesystem;
using cellfeed::testing::fixture_head;
using cellfeed::testing::fixture_shards;
using cellfeed::testing::ShardFixture;
using cellfeed::testing::TempDir;
using cellfeed::testing::write_fixture;
using cellfeed::testing::write_fixture_shard;
using ::testing::HasSubstr;

std::map<std::string, std::string> contents(const std::string& dir) {
  std::map<std::string, std::string> files;
  for (const auto& entry : fs::directory_iterator(dir)) {
    std::ostringstream text;
    text << std::ifstream(entry.path(), std::ios::binary).rdbuf();
    files[entry.path().filename().string()] = text.str();
  }
  return files;
}

void finish(PartialManifest journal, const std::string& dir, const ShardFixture& fixture) {
  const auto head = fixture_head(dir, fixture);
  for (std::int64_t shard = 0; shard < fixture_shards(fixture); ++shard)
    if (!journal.finished().contains(shard)) journal.add(write_fixture_shard(dir, fixture, shard));
  journal.commit(head);
}

// What lies there when the writer dies after two shards of three, the second not yet recorded.
void leave_unfinished(const std::string& dir, const ShardFixture& fixture) {
  auto journal = PartialManifest::start(dir, "plan");
  fixture_head(dir, fixture);
  journal.add(write_fixture_shard(dir, fixture, 0));
  write_fixture_shard(dir, fixture, 1);
  std::ofstream(io::make_temp_path(dir + "/shard_000002.cells")) << "half a file";
}

TEST(PartialManifest, ResumesToTheSameBytes) {
  TempDir whole;
  TempDir resumed;
  const ShardFixture fixture;
  write_fixture(whole.path(), fixture);
  leave_unfinished(resumed.path(), fixture);
  auto journal = PartialManifest::resume(resumed.path(), "plan");
  EXPECT_EQ(journal.finished().size(), 1u);
  finish(std::move(journal), resumed.path(), fixture);
  EXPECT_EQ(contents(whole.path()), contents(resumed.path()));
}

TEST(PartialManifest, ResumesFromEveryLengthOfTheJournal) {
  TempDir whole;
  TempDir killed;
  const ShardFixture fixture{.n_cells = 6, .shard_size = 3, .n_genes = 8};
  write_fixture(whole.path(), fixture);
  auto journal = PartialManifest::start(killed.path(), "plan");
  const auto head = fixture_head(killed.path(), fixture);
  const std::string path = killed.file(kPartialManifestName);
  const auto first_line = fs::file_size(path);
  journal.add(write_fixture_shard(killed.path(), fixture, 0));
  journal.add(write_fixture_shard(killed.path(), fixture, 1));
  const std::string text = contents(killed.path())[kPartialManifestName];
  for (std::size_t size = first_line; size <= text.size(); size += 149) {
    std::ofstream(path, std::ios::binary) << text.substr(0, size);
    finish(PartialManifest::resume(killed.path(), "plan"), killed.path(), fixture);
    EXPECT_EQ(contents(whole.path()), contents(killed.path())) << size;
    fs::remove(killed.file(kManifestName));
  }
}

TEST(PartialManifest, BytesDoNotDependOnHowRowsWereAppended) {
  TempDir a;
  TempDir b;
  write_fixture(a.path(), {.n_cells = 50, .shard_size = 50, .rows_per_append = 1});
  write_fixture(b.path(), {.n_cells = 50, .shard_size = 50, .rows_per_append = 50});
  EXPECT_EQ(contents(a.path()), contents(b.path()));
}

TEST(PartialManifest, WritesADamagedShardAgain) {
  TempDir dir;
  const ShardFixture fixture;
  leave_unfinished(dir.path(), fixture);
  fs::resize_file(dir.file("shard_000000.arrow"), 10);
  EXPECT_TRUE(PartialManifest::resume(dir.path(), "plan").finished().empty());
}

TEST(PartialManifest, RefusesAnotherPlan) {
  TempDir dir;
  leave_unfinished(dir.path(), {});
  try {
    PartialManifest::resume(dir.path(), "plan B");
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr("plan B"));
  }
}

TEST(PartialManifest, RefusesToStartOverAnything) {
  TempDir unfinished;
  leave_unfinished(unfinished.path(), {});
  EXPECT_THROW(PartialManifest::start(unfinished.path(), "plan"), Error);
  TempDir finished;
  write_fixture(finished.path(), {});
  EXPECT_THROW(PartialManifest::start(finished.path(), "plan"), Error);
  EXPECT_THROW(PartialManifest::resume(finished.path(), "plan"), Error);
  EXPECT_EQ(read_manifest(finished.path()).plan_fingerprint, plan_fingerprint("plan"));
}

TEST(PartialManifest, TellsStatesOfADirectoryApart) {
  TempDir dir;
  EXPECT_EQ(shard_directory_state(dir.file("none")), DirectoryState::kEmpty);
  EXPECT_EQ(shard_directory_state(dir.path()), DirectoryState::kEmpty);
  std::ofstream(dir.file("thesis.txt")) << "years of work";
  EXPECT_EQ(shard_directory_state(dir.path()), DirectoryState::kOther);
  PartialManifest::start(dir.path(), "plan");
  EXPECT_EQ(shard_directory_state(dir.path()), DirectoryState::kUnfinished);
}

TEST(FileNames, HaveAGenerationThatIsReadBack) {
  EXPECT_EQ(shard_stem(7), "shard_000007");
  EXPECT_EQ(shard_stem(1234567, 2), "shard_1234567.g2");
  for (const Generation generation : {0, 1, 12})
    for (const std::string& name :
         {genes_name(generation), first_pass_name(generation), shard_stem(7, generation) + ".cells",
          shard_stem(1234567, generation) + ".arrow", shard_stem(0, generation) + ".npy"})
      EXPECT_EQ(generation_of(name), generation) << name;
  for (const char* other :
       {"shard_metadata.json", "shard_metadata.partial.jsonl", "shard_000000.txt", "shard_.cells",
        "shard_00000.cells", "shard_000000.g0.cells", "shard_000000.g01.cells", "genes.cells",
        "shard_000000.g1", "shard_-00001.cells", "shard_99999999999999999999.cells", "genes", "",
        "first_pass.g0.cbor", "first_pass.h5", "shard_000000.cells.tmp-1-0123456789abcdef"})
    EXPECT_EQ(generation_of(other), std::nullopt) << other;
}

TEST(PartialManifest, RefusesToFinishWithoutAFile) {
  for (const char* name : {"genes.parquet", "shard_000001.cells"}) {
    TempDir dir;
    const ShardFixture fixture;
    auto journal = PartialManifest::start(dir.path(), "plan");
    const auto head = fixture_head(dir.path(), fixture);
    for (std::int64_t shard = 0; shard < fixture_shards(fixture); ++shard)
      journal.add(write_fixture_shard(dir.path(), fixture, shard));
    fs::resize_file(dir.file(name), 3);
    EXPECT_THROW(journal.commit(head), Error);
    EXPECT_FALSE(fs::exists(dir.file(kManifestName)));
  }
}

TEST(ShardWriter, LeavesNothingBehindWhenItIsDropped) {
  TempDir dir;
  {
    ShardSpec spec;
    spec.dir = dir.path();
    spec.cells.n_genes = 40;
    spec.obs_schema = cellfeed::testing::fixture_schema();
    ShardWriter writer(spec);
    auto rows = cellfeed::testing::encode_fixture_rows({}, 0, 5);
    writer.append(rows);
  }
  EXPECT_TRUE(fs::is_empty(dir.path()));
}

}  // namespace
}  // namespace cellfeed::format::shard
