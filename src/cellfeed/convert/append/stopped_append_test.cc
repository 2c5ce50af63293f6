// What a stopped append leaves, and how it goes on.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/append/append.h"
#include "cellfeed/format/shard/partial_manifest.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/testing/append_fixture.h"

namespace cellfeed::convert {
namespace {

namespace shard = format::shard;
using cellfeed::testing::directory_bytes;
using cellfeed::testing::expect_same_cells;
using cellfeed::testing::read_back;
using cellfeed::testing::ReadBack;
using cellfeed::testing::TempDir;
using ::testing::HasSubstr;

// A run that stops after some shards.
class StoppedAppend : public cellfeed::testing::AppendFixture {
 protected:
  StoppedAppend() {
    convert_to_shards(conversion("whole", {"a.h5ad"}));
    append_to_shards(append({"b.h5ad", "c.h5ad"}, "whole"));
    convert_to_shards(conversion("shards", {"a.h5ad"}));
    before_ = read_back(shards_);
    stop();
  }

  void stop() const {
    std::stop_source source;
    AppendOptions options = append({"b.h5ad", "c.h5ad"});
    options.convert.threads = 1;
    options.convert.stop = source.get_token();
    options.convert.progress = [&](const Progress& progress) {
      if (progress.done > 40) source.request_stop();
    };
    try {
      append_to_shards(options);
      ADD_FAILURE() << "was not stopped";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
      EXPECT_THAT(error.what(), HasSubstr("new shards are finished and stay: continue with"));
    }
    EXPECT_TRUE(std::filesystem::exists(shards_ + "/" + shard::kPartialManifestName));
  }
  void expect_old() const {
    expect_same_cells(read_back(shards_), before_);
    EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
  }
  void expect_whole() const { EXPECT_EQ(bytes(), directory_bytes(dir_.file("whole"))); }

  ReadBack before_;
};

TEST_F(StoppedAppend, LeavesTheOldShardsAndGoesOnToTheSameBytes) {
  expect_old();
  AppendOptions options = append({"b.h5ad", "c.h5ad"});
  options.resumes = true;
  const AppendResult result = append_to_shards(options);
  EXPECT_GT(result.shards.n_shards_resumed, 0);
  EXPECT_LT(result.shards.n_shards_resumed, 4);
  expect_whole();
}

TEST_F(StoppedAppend, BeginsAnewWithoutResume) {
  EXPECT_EQ(append_to_shards(append({"b.h5ad", "c.h5ad"})).shards.n_shards_resumed, 0);
  expect_whole();
}

TEST_F(StoppedAppend, GoesOnWithTheSameSourcesOnly) {
  AppendOptions options = append({"c.h5ad"});
  options.resumes = true;
  EXPECT_THAT(refusal(options, ErrorKind::kInvalidArgument), HasSubstr("without --resume"));
  expect_old();
  EXPECT_EQ(append_to_shards(append({"c.h5ad"})).n_cells_added, 45);
  EXPECT_EQ(read_back(shards_).rows.size(), 105u);
  EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
}

TEST_F(StoppedAppend, IsNoConversionToResumeAndGoesWithAnOverwrite) {
  ConvertOptions options = conversion("shards", {"a.h5ad"});
  options.existing = ExistingTarget::kResume;
  EXPECT_EQ(convert_to_shards(options).n_cells, 60);
  expect_old();
  options.existing = ExistingTarget::kOverwrite;
  convert_to_shards(options);
  expect_old();
  for (const auto& [name, content] : bytes())
    EXPECT_THAT(name, ::testing::Not(HasSubstr("partial")));
  EXPECT_EQ(bytes().size(), directory_bytes(dir_.file("whole")).size() - 12);
}

TEST_F(StoppedAppend, NeverGoesBehindShardsThatWereWrittenAgain) {
  ConvertOptions options = conversion("shards", {"b.h5ad"});
  options.existing = ExistingTarget::kOverwrite;
  convert_to_shards(options);
  AppendOptions again = append({"a.h5ad", "c.h5ad"});
  again.resumes = true;
  EXPECT_EQ(append_to_shards(again).n_cells_added, 105);
  EXPECT_EQ(read_back(shards_).rows.size(), 140u);
}

class EndOfAppend : public cellfeed::testing::AppendFixture {};

TEST_F(EndOfAppend, OfOneThatIsDoneHasNothingLeftToResumeAndIsRefusedElse) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  AppendOptions options = append({"b.h5ad", "c.h5ad"});
  append_to_shards(options);
  const auto done = bytes();
  EXPECT_THAT(refusal(options, ErrorKind::kAlreadyExists), HasSubstr("b.h5ad"));
  options.resumes = true;
  const AppendResult result = append_to_shards(options);
  EXPECT_EQ(result.shards.n_shards_resumed, result.n_shards_added);
  EXPECT_EQ(result.n_shards_added, 4);
  EXPECT_EQ(result.n_cells_added, 80);
  EXPECT_EQ(bytes(), done);
}

// Killed after the manifest took its place, and before the journal was removed.
TEST_F(EndOfAppend, IsDoneOnceTheManifestIsThere) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  std::vector<std::byte> journal;
  AppendOptions options = append({"c.h5ad"});
  options.convert.threads = 1;
  options.convert.progress = [&](const Progress&) {
    const std::string path = shards_ + "/" + shard::kPartialManifestName;
    if (std::filesystem::exists(path)) journal = TempDir::read_all(path);
  };
  append_to_shards(options);
  ASSERT_FALSE(journal.empty());
  const auto done = bytes();
  io::write_small_file(shards_ + "/" + shard::kPartialManifestName,
                       {reinterpret_cast<const char*>(journal.data()), journal.size()});
  EXPECT_FALSE(shard::unfinished_beside_manifest(io::Directory(shards_)));
  EXPECT_EQ(read_back(shards_).rows.size(), 105u);
  append_to_shards(append({"b.h5ad"}));
  EXPECT_EQ(read_back(shards_).rows.size(), 140u);
  EXPECT_TRUE(shard::verify_shard_dir(shards_).empty());
  EXPECT_FALSE(bytes().contains(shard::kPartialManifestName));
}

TEST_F(EndOfAppend, WaitsForNobodyWhoWrites) {
  convert_to_shards(conversion("shards", {"a.h5ad"}));
  const io::DirectoryLock lock{io::Directory(shards_)};
  EXPECT_THAT(refusal(append({"b.h5ad"}), ErrorKind::kAlreadyExists), HasSubstr("writ"));
}

}  // namespace
}  // namespace cellfeed::convert
