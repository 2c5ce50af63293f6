// RowCache beside a process that holds its lock and says nothing.
#include "cellfeed/convert/cache/row_cache.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <stdlib.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <latch>
#include <optional>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/convert/cache/row_cache_place.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/cache_warnings.h"
#include "cellfeed/io/directory.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::convert {
namespace {

using ::testing::HasSubstr;

class RowCacheLock : public ::testing::Test {
 protected:
  RowCacheLock() {
    std::ofstream(dir_.file("matrix.mtx"))
        << "%%MatrixMarket matrix coordinate integer general\n1 2 1\n1 2 7\n";
    std::ofstream(dir_.file("barcodes.tsv")) << "a\nb\n";
    std::ofstream(dir_.file("features.tsv")) << "id\tname\tGene Expression\n";
  }
  // The rows of the folder, by a cache that gives up after so long.
  std::vector<std::unique_ptr<format::RowStore>> open(std::int64_t silence_ms) {
    const RowCache cache({.dir = dir_.file("rows"), .silence_ms = silence_ms});
    format::OpenOptions options;
    options.row_maker = [&](std::unique_ptr<format::EntryStore> store,
                            const format::OpenOptions& open) {
      place_ = std::filesystem::path(cache.directory_of(*store)).parent_path().string();
      if (lock_first_) {
        io::make_directories(place_);
        lock_.emplace(io::Directory(place_), ".X.lock");
        is_locked_.count_down();
      }
      cache.make_rows(*store, {}, {}, [&](const std::string& text) {
        if (said_.empty()) has_said_.count_down();
        said_ += text;
      });
      return cache.open_rows(std::move(store), open);
    };
    return format::open_stores(dir_.path(), options);
  }
  std::string held() const { return place_ + "/.X.lock.held"; }

  testing::TempDir dir_;
  std::string place_, said_;
  bool lock_first_ = false;
  std::latch is_locked_{1}, has_said_{1};
  std::optional<io::DirectoryLock> lock_;
};

TEST_F(RowCacheLock, NobodyHoldsItAndNothingIsSaid) {
  EXPECT_EQ(open(300).size(), 1);
  EXPECT_EQ(said_, "");
}

TEST_F(RowCacheLock, WhereTheSystemFreesLocksItIsWaitedForAndSaidOnce) {
  lock_first_ = true;
  std::jthread releasing([&] {
    for (int i = 0; i < 6000 && !has_said_.try_wait(); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    std::this_thread::sleep_for(std::chrono::milliseconds(900));  // for many more looks
    lock_.reset();
  });
  EXPECT_EQ(open(100).size(), 1);
  EXPECT_THAT(said_, HasSubstr("waiting for the rows of 'X'"));
  EXPECT_EQ(said_.find("waiting"), said_.rfind("waiting"));
}

TEST_F(RowCacheLock, AHolderThatIsSilentWhereNothingFreesItIsNamed) {
  EXPECT_EQ(open(300).size(), 1);
  std::filesystem::remove_all(place_ + "/X");
  lock_first_ = true;
  std::ofstream(held()) << "123456789 elsewhere\n";
  try {
    open(300);
    FAIL();
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kIo);
    EXPECT_THAT(error.what(), HasSubstr(".X.lock.held"));
    EXPECT_THAT(error.what(), HasSubstr("no sign of life"));
  }
}

TEST_F(RowCacheLock, AHolderThatShowsLifeIsWaitedFor) {
  EXPECT_EQ(open(300).size(), 1);
  std::filesystem::remove_all(place_ + "/X");
  lock_first_ = true;
  std::ofstream(held()) << "123456789 elsewhere\n";
  std::jthread living([&, path = held()] {
    is_locked_.wait();
    for (int i = 0; i < 30; ++i) {
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
      std::filesystem::last_write_time(path, std::filesystem::file_time_type::clock::now());
    }
    lock_.reset();
  });
  EXPECT_EQ(open(2000).size(), 1);  // twenty times what lies between two signs of life
}

TEST(CacheFolder, IsThisUsersOwnWhereOthersMayWriteToWhatIsMadeMeanwhile) {
  const testing::TempDir dir;
  ::setenv("XDG_CACHE_HOME", dir.path().c_str(), 1);
  const std::string file = dir.write("atlas.h5ad", std::string_view("cells"));
  const std::string shared = dir.file("shared");
  CacheFolder folder = cache_folder(file, shared, "'X' is stored as CSC");
  const std::string before = folder.path;
  EXPECT_THAT(before, HasSubstr(shared + "/atlas.h5ad-"));
  std::filesystem::create_directories(before);
  std::filesystem::permissions(folder.path, std::filesystem::perms(0777));
  io::take_cache_warnings();
  const io::OwnFolder made = folder.make();
  EXPECT_EQ(made.directory().path(), folder.path);
  EXPECT_THAT(folder.path, HasSubstr(dir.path() + "/cellfeed/atlas.h5ad-"));
  EXPECT_EQ(cache_folder(file, shared, "'X' is stored as CSC").path, folder.path);
  EXPECT_THAT(io::take_cache_warnings(),
              ::testing::ElementsAre(HasSubstr(before + ": is not used")));
  ::unsetenv("XDG_CACHE_HOME");
}

}  // namespace
}  // namespace cellfeed::convert
