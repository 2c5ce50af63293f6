// The program where calls of its file system fail, each in turn: an error that says so and exit
// code 1, nothing half-written, and once all is well the bytes that an undisturbed run writes.
#include "cellfeed/testing/faulty_file_system.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/run_program.h"
#include "cellfeed/testing/small_atlas.h"

namespace cellfeed::cli {
namespace {

using cellfeed::testing::FaultyFileSystem;
using cellfeed::testing::MemoryFileSystem;
using cellfeed::testing::run;
using cellfeed::testing::SmallAtlas;
using cellfeed::testing::TempDir;
using ::testing::HasSubstr;

constexpr int kMostCalls = 1'000;

using Files = std::map<std::string, std::vector<std::byte>>;

// The files that each call leaves are those of a store of objects: whole, or not there.
class FailingCalls : public ::testing::Test {
 protected:
  FailingCalls() {
    input_ = SmallAtlas({.n_cells = 60, .n_genes = 20}).write(local_.file("a.h5ad"));
  }

  std::vector<std::string> shard(const std::string& input) const {
    return {"shard",        input, "--output-dir", kRoot + "shards",
            "--shard-size", "25",  "--threads",    "1"};
  }
  static void put(const MemoryFileSystem& files, const std::string& from, const std::string& to) {
    const auto source = io::open_file(from);
    std::vector<std::byte> bytes(static_cast<std::size_t>(source->size()));
    source->read(0, bytes);
    files.put(to, std::move(bytes));
  }
  void put_input(const MemoryFileSystem& files) const {
    put(files, input_, kRoot + "a.h5ad");
    files.make_directories(kRoot);
  }
  // As the program says it: from the beginning where nothing was begun.
  void go_on_after(const std::string& said) const {
    auto again = shard(kRoot + "a.h5ad");
    const auto begun = run(again);
    if (begun.code == 0) return;
    EXPECT_THAT(said + begun.err, HasSubstr("--resume"));
    again.push_back("--resume");
    const auto resumed = run(again);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
  }
  static Files content_of(const MemoryFileSystem& files) {
    Files all;
    for (const std::string& path : files.paths()) all[path] = *files.content(path);
    return all;
  }

  const std::string kRoot = "faulty://store/";
  TempDir local_;
  std::string input_;
};

TEST_F(FailingCalls, OfAConversionAreNamedAndItGoesOn) {
  Files whole;
  {
    const auto files = std::make_shared<MemoryFileSystem>();
    put_input(*files);
    const io::FileSystemRegistration registration("faulty", files);
    ASSERT_EQ(run(shard(kRoot + "a.h5ad")).code, 0);
    whole = content_of(*files);
  }
  int n_failed = 0;
  bool is_past_the_last = false;
  for (int fault = 0; fault < kMostCalls && !is_past_the_last; ++fault) {
    SCOPED_TRACE(fault);
    const auto files = std::make_shared<MemoryFileSystem>();
    put_input(*files);
    std::string said;
    {
      const auto faulty = std::make_shared<FaultyFileSystem>(files, fault);
      const io::FileSystemRegistration registration("faulty", faulty);
      const auto outcome = run(shard(kRoot + "a.h5ad"));
      is_past_the_last = faulty->calls() <= fault;
      if (outcome.code != 0) {
        said = outcome.err;
        EXPECT_EQ(outcome.code, 1);
        EXPECT_THAT(outcome.err, HasSubstr(FaultyFileSystem::kFault));
      }
    }
    n_failed += said.empty() ? 0 : 1;
    const io::FileSystemRegistration registration("faulty", files);
    if (!said.empty()) go_on_after(said);
    EXPECT_EQ(content_of(*files), whole);
  }
  EXPECT_TRUE(is_past_the_last);
  EXPECT_GT(n_failed, 20);
}

TEST_F(FailingCalls, OfAnAppendLeaveTheOldShardsOrTheNewAndItGoesOn) {
  const std::string manifest = kRoot + "shards/shard_metadata.json";
  const std::vector<std::string> arguments{"append",         kRoot + "b.h5ad", "--to",
                                           kRoot + "shards", "--threads",      "1"};
  const std::string other =
      SmallAtlas({.n_cells = 40, .n_genes = 20, .seed = 2}).write(local_.file("b.h5ad"));
  const auto begin = [&] {
    auto files = std::make_shared<MemoryFileSystem>();
    put_input(*files);
    put(*files, other, kRoot + "b.h5ad");
    const io::FileSystemRegistration registration("faulty", files);
    EXPECT_EQ(run(shard(kRoot + "a.h5ad")).code, 0);
    return files;
  };
  const Files old = content_of(*begin());
  Files whole;
  int n_failed = 0;
  bool is_past_the_last = false;
  for (int fault = -1; fault < kMostCalls && !is_past_the_last; ++fault) {
    SCOPED_TRACE(fault);
    const auto files = begin();
    {
      const auto faulty = std::make_shared<FaultyFileSystem>(files, fault);
      const io::FileSystemRegistration registration("faulty", faulty);
      const auto outcome = run(arguments);
      is_past_the_last = fault >= 0 && faulty->calls() <= fault;
      if (fault < 0) {
        ASSERT_EQ(outcome.code, 0) << outcome.err;
        whole = content_of(*files);
      } else if (outcome.code != 0) {
        ++n_failed;
        EXPECT_EQ(outcome.code, 1);
        EXPECT_THAT(outcome.err, HasSubstr(FaultyFileSystem::kFault));
      }
    }
    const Files left = content_of(*files);
    for (const auto& [path, content] : old)
      EXPECT_TRUE(path == manifest || left.at(path) == content) << path;
    EXPECT_TRUE(left.at(manifest) == old.at(manifest) || left.at(manifest) == whole.at(manifest));
    const io::FileSystemRegistration registration("faulty", files);
    auto again = arguments;
    again.push_back("--resume");
    const auto resumed = run(again);
    EXPECT_EQ(resumed.code, 0) << resumed.err;
    EXPECT_EQ(content_of(*files), whole);
  }
  EXPECT_TRUE(is_past_the_last);
  EXPECT_GT(n_failed, 20);
}

TEST_F(FailingCalls, OfAnExportAreNamedAndItIsThereWholeOrNotAtAll) {
  const std::string back = kRoot + "back.h5ad";
  const std::vector<std::string> arguments{"export", kRoot + "a.h5ad", "--output",
                                           back,     "--threads",      "1"};
  Files whole;
  int n_failed = 0;
  bool is_past_the_last = false;
  for (int fault = -1; fault < kMostCalls && !is_past_the_last; ++fault) {
    SCOPED_TRACE(fault);
    const auto files = std::make_shared<MemoryFileSystem>();
    put_input(*files);
    const auto faulty = std::make_shared<FaultyFileSystem>(files, fault);
    const io::FileSystemRegistration registration("faulty", faulty);
    const auto outcome = run(arguments);
    is_past_the_last = fault >= 0 && faulty->calls() <= fault;
    if (fault < 0) {
      ASSERT_EQ(outcome.code, 0) << outcome.err;
      whole = content_of(*files);
    } else if (outcome.code == 0) {
      EXPECT_EQ(content_of(*files), whole);
    } else {
      ++n_failed;
      EXPECT_EQ(outcome.code, 1);
      EXPECT_THAT(outcome.err, HasSubstr(FaultyFileSystem::kFault));
      if (files->content(back)) {
        EXPECT_EQ(content_of(*files), whole);
      }
    }
  }
  EXPECT_TRUE(is_past_the_last);
  EXPECT_GT(n_failed, 5);
}

}  // namespace
}  // namespace cellfeed::cli
