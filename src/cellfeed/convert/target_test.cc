// Targets that exist, writers that die, disks that fill up: nothing half-written is ever taken for
// finished.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <functional>

#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/format/shard/verify.h"
#include "cellfeed/testing/conversion_error.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/input_cells.h"
#include "cellfeed/testing/killed_conversion.h"
#include "cellfeed/testing/read_back.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::convert {
namespace {

using testing::directory_bytes;
using testing::error_of;
using ::testing::HasSubstr;
using testing::SmallAtlas;
using testing::TempDir;

class Target : public ::testing::Test {
 protected:
  Target() : atlas_({.n_cells = 3000, .n_genes = 200}) {
    input_ = atlas_.write(dir_.file("a.h5ad"));
  }

  ConvertOptions options(const std::string& name,
                         ExistingTarget existing = ExistingTarget::kRefuse) const {
    ConvertOptions options;
    options.input = testing::cells_of({input_});
    options.output_dir = dir_.file(name);
    options.shard_size = 640;
    options.threads = 2;
    options.existing = existing;
    return options;
  }

  TempDir dir_;
  SmallAtlas atlas_;
  std::string input_;
};

TEST_F(Target, FinishedShardsAreKeptUnlessTheyAreToBeOverwritten) {
  convert_to_shards(options("out"));
  const auto before = directory_bytes(dir_.file("out"));
  EXPECT_THAT(error_of(options("out"), ErrorKind::kAlreadyExists), HasSubstr("--overwrite"));
  EXPECT_EQ(directory_bytes(dir_.file("out")), before);

  ConvertOptions bigger = options("out", ExistingTarget::kOverwrite);
  bigger.shard_size = 1000;
  EXPECT_EQ(convert_to_shards(bigger).n_shards, 3);
  EXPECT_EQ(testing::read_back(dir_.file("out")).rows.size(), 3000);
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out/shard_000003.cells")));
  EXPECT_FALSE(std::filesystem::exists(dir_.file("out/shard_000000.cells")));
}

// Options of a conversion to other shards, which reports the first progress to `hook`.
ConvertOptions rewriting(ConvertOptions options, const std::function<void()>& hook) {
  options.existing = ExistingTarget::kOverwrite;
  options.shard_size = 1000;
  options.progress = [hook](const Progress& p) {
    if (p.done > 0) hook();
  };
  return options;
}

// Names as they stand in a directory that was never rewritten.
std::map<std::string, std::vector<std::byte>> plain_bytes(const std::string& dir) {
  std::map<std::string, std::vector<std::byte>> files;
  for (auto& [name, bytes] : directory_bytes(dir)) {
    const auto mark = name.find(".g");
    const auto end = mark == std::string::npos ? mark : name.find('.', mark + 2);
    if (name == format::shard::kManifestName) continue;  // it holds the names
    files[mark == std::string::npos ? name : name.substr(0, mark) + name.substr(end)] = bytes;
  }
  return files;
}

TEST_F(Target, ShardsThatAreOverwrittenStayUntilTheNewOnesAreWhole) {
  convert_to_shards(options("out"));
  const auto before = directory_bytes(dir_.file("out"));
  const auto still_there = [&] {
    const auto now = directory_bytes(dir_.file("out"));
    for (const auto& [name, bytes] : before) EXPECT_EQ(now.at(name), bytes) << name;
    EXPECT_EQ(format::shard::verify_shard_dir(dir_.file("out")).size(), 0u);
  };
  convert_to_shards(rewriting(options("out"), still_there));
  ConvertOptions other = options("other");
  other.shard_size = 1000;
  convert_to_shards(other);
  EXPECT_EQ(plain_bytes(dir_.file("out")), plain_bytes(dir_.file("other")));
  EXPECT_EQ(format::shard::verify_shard_dir(dir_.file("out")).size(), 0u);
}

TEST_F(Target, AnOverwriteThatFailsLeavesTheOldShardsAndGoesOn) {
  convert_to_shards(options("out"));
  const auto old_rows = testing::read_back(dir_.file("out")).rows;
  std::stop_source stop;
  ConvertOptions stopped = rewriting(options("out"), [&] { stop.request_stop(); });
  stopped.stop = stop.get_token();
  EXPECT_THAT(error_of(stopped, ErrorKind::kCancelled), HasSubstr("the old ones are as they were"));
  EXPECT_EQ(testing::read_back(dir_.file("out")).rows, old_rows);
  EXPECT_EQ(format::shard::verify_shard_dir(dir_.file("out")).size(), 0u);
  EXPECT_THAT(error_of(options("out"), ErrorKind::kAlreadyExists), HasSubstr("--resume"));
  // What was begun is continued with its own options and no others, or begun anew.
  error_of(options("out", ExistingTarget::kResume), ErrorKind::kInvalidArgument);
  std::filesystem::copy(dir_.file("out"), dir_.file("again"));
  ConvertOptions resumed = options("out", ExistingTarget::kResume);
  resumed.shard_size = 1000;
  EXPECT_EQ(convert_to_shards(resumed).n_shards, 3);
  ConvertOptions again = resumed;
  again.output_dir = dir_.file("again");
  again.existing = ExistingTarget::kOverwrite;
  convert_to_shards(again);
  EXPECT_EQ(directory_bytes(dir_.file("again")), directory_bytes(dir_.file("out")));
  EXPECT_EQ(testing::read_back(dir_.file("out")).rows, old_rows);
}

// Removed and made again, moved away with another in its place, or a single file gone.
TEST_F(Target, ADirectoryThatIsReplacedMeanwhileIsAnError) {
  const auto replace = [&](const std::string& name) {
    std::filesystem::remove_all(dir_.file(name));
    std::filesystem::create_directory(dir_.file(name));
  };
  const auto move = [&](const std::string& name) {
    std::filesystem::rename(dir_.file(name), dir_.file(name + "_moved"));
    std::filesystem::create_directory(dir_.file(name));
  };
  const auto remove_one = [&](const std::string& name) {
    std::filesystem::remove(dir_.file(name + "/shard_000000.arrow"));
  };
  const std::vector<std::function<void(const std::string&)>> ways = {replace, move, remove_one};
  for (std::size_t i = 0; i < ways.size(); ++i)
    for (const std::int64_t at : {700, 3000}) {
      const std::string name = fmt::format("out_{}_{}", i, at);
      bool is_done = false;
      ConvertOptions disturbed = options(name);
      disturbed.progress = [&](const Progress& p) {
        if (p.done >= at && !std::exchange(is_done, true)) ways[i](name);
      };
      EXPECT_THAT(error_of(disturbed, ErrorKind::kNotFound), HasSubstr("by another program"));
      EXPECT_FALSE(std::filesystem::exists(dir_.file(name + "/shard_metadata.json")));
      convert_to_shards(options(name, ExistingTarget::kResume));
      EXPECT_EQ(testing::read_back(dir_.file(name)).rows.size(), 3000);
    }
}

TEST_F(Target, ResumingAFinishedConversionDoesNothingAndOtherOptionsAreRefused) {
  convert_to_shards(options("out"));
  const auto before = directory_bytes(dir_.file("out"));
  const ConvertResult result = convert_to_shards(options("out", ExistingTarget::kResume));
  EXPECT_EQ(result.n_shards_resumed, result.n_shards);
  ConvertOptions other = options("out", ExistingTarget::kResume);
  other.shard_size = 641;
  error_of(other, ErrorKind::kAlreadyExists);
  EXPECT_EQ(directory_bytes(dir_.file("out")), before);
}

TEST_F(Target, OtherPeoplesFilesAreNeverTouched) {
  std::filesystem::create_directory(dir_.file("home"));
  std::ofstream(dir_.file("home/thesis.txt")) << "years of work";
  for (const auto existing :
       {ExistingTarget::kRefuse, ExistingTarget::kResume, ExistingTarget::kOverwrite})
    EXPECT_THAT(error_of(options("home", existing), ErrorKind::kAlreadyExists),
                HasSubstr("thesis.txt"));
  EXPECT_EQ(directory_bytes(dir_.file("home")).size(), 1);

  std::ofstream(dir_.file("file")) << "not a directory";
  EXPECT_THROW(convert_to_shards(options("file")), Error);
}

TEST_F(Target, AnInputInsideTheTargetIsNotOverwritten) {
  convert_to_shards(options("out"));
  ConvertOptions again = options("out", ExistingTarget::kOverwrite);
  again.input = testing::cells_of({dir_.file("out")});
  error_of(again, ErrorKind::kInvalidArgument);
  EXPECT_EQ(testing::read_back(dir_.file("out")).rows.size(), 3000);
}

TEST_F(Target, OneWriterAtATime) {
  std::filesystem::create_directory(dir_.file("out"));
  const io::DirectoryLock other_writer(dir_.file("out"));
  EXPECT_THAT(error_of(options("out"), ErrorKind::kAlreadyExists), HasSubstr("out"));
}

TEST_F(Target, AnUnwritableTargetIsAnError) {
  EXPECT_THROW(convert_to_shards([&] {
                 ConvertOptions options = this->options("out");
                 options.output_dir = "/proc/no-directory-can-be-made-here";
                 return options;
               }()),
               Error);
}

TEST_F(Target, AStoppedConversionIsContinuedToTheSameBytes) {
  convert_to_shards(options("whole"));
  const auto expected = directory_bytes(dir_.file("whole"));
  for (const std::int64_t stop_after : {1, 1300}) {
    const std::string name = "stopped_" + std::to_string(stop_after);
    std::stop_source stop;
    ConvertOptions first = options(name);
    first.stop = stop.get_token();
    first.progress = [&](const Progress& p) {
      if (p.done >= stop_after) stop.request_stop();
    };
    EXPECT_THAT(error_of(first, ErrorKind::kCancelled), HasSubstr("--resume"));
    EXPECT_THAT(error_of(options(name), ErrorKind::kAlreadyExists), HasSubstr("--resume"));
    ConvertOptions other = options(name, ExistingTarget::kResume);
    other.shard_size = 641;
    error_of(other, ErrorKind::kInvalidArgument);
    convert_to_shards(options(name, ExistingTarget::kResume));
    EXPECT_EQ(directory_bytes(dir_.file(name)), expected) << name;
  }
}

TEST_F(Target, AChangedSourceIsNotResumed) {
  std::stop_source stop;
  ConvertOptions first = options("out");
  first.stop = stop.get_token();
  first.progress = [&](const Progress&) { stop.request_stop(); };
  error_of(first, ErrorKind::kCancelled);
  std::filesystem::remove(input_);
  SmallAtlas({.n_cells = 3000, .n_genes = 200, .seed = 9}).write(input_);
  error_of(options("out", ExistingTarget::kResume), ErrorKind::kInvalidArgument);
}

TEST_F(Target, WhatAWriterLeftThatWasKilledAtTheVeryBeginningOrEndIsTidiedUp) {
  convert_to_shards(options("whole"));
  const auto expected = directory_bytes(dir_.file("whole"));
  const std::string journal = format::shard::kPartialManifestName;
  // Killed between writing the manifest and removing the journal, and before there was a journal.
  std::ofstream(dir_.file("whole/" + journal)) << "{}";
  std::filesystem::create_directory(dir_.file("begun"));
  std::ofstream(io::make_temp_path(dir_.file("begun/" + journal))) << "{";
  for (const char* name : {"whole", "begun"}) {
    convert_to_shards(options(name, ExistingTarget::kResume));
    EXPECT_EQ(directory_bytes(dir_.file(name)), expected) << name;
  }
}

TEST_F(Target, AKilledWriterIsContinuedToTheSameBytes) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  convert_to_shards(options("whole"));
  const auto expected = directory_bytes(dir_.file("whole"));
  std::uint64_t state = 42;
  for (int round = 0; round < 4; ++round) {
    const std::string name = "killed_" + std::to_string(round);
    for (int kills = 0; kills < 2; ++kills) {
      const auto at = static_cast<std::int64_t>(testing::next_random(state) % 2500);
      EXPECT_EQ(testing::exit_code_when_killed(options(name, ExistingTarget::kResume), at),
                100 + SIGKILL);
    }
    convert_to_shards(options(name, ExistingTarget::kResume));
    EXPECT_EQ(directory_bytes(dir_.file(name)), expected) << name;
  }
}

TEST_F(Target, AFullDiskIsAClearErrorAndIsContinuedOnceThereIsRoom) {
  if (testing::kThreadSanitizer)
    GTEST_SKIP() << "ThreadSanitizer ends a forked child that starts a thread";
  convert_to_shards(options("whole"));
  std::uintmax_t largest = 0;
  for (const auto& [name, bytes] : directory_bytes(dir_.file("whole")))
    largest = std::max<std::uintmax_t>(largest, bytes.size());
  // A limit on file sizes stands in for a full disk: write(2) fails half-way.
  const pid_t child = ::fork();
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{largest - 100, largest - 100};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    try {
      convert_to_shards(options("full"));
      ::_exit(0);
    } catch (const Error& error) {
      const bool is_clear = std::string(error.what()).find("--resume") != std::string::npos;
      ::_exit(is_clear && (error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kNoSpace)
                  ? 3
                  : 4);
    } catch (...) {
      ::_exit(5);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  ASSERT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 3);
  for (const auto& entry : std::filesystem::directory_iterator(dir_.file("full")))
    EXPECT_FALSE(io::is_temp_name(entry.path().filename().string())) << entry.path();
  convert_to_shards(options("full", ExistingTarget::kResume));
  EXPECT_EQ(directory_bytes(dir_.file("full")), directory_bytes(dir_.file("whole")));
}

}  // namespace
}  // namespace cellfeed::convert
