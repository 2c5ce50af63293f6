#include "cellfeed/io/shared_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

class SharedFiles : public ::testing::Test {
 protected:
  void make(OnExisting on_existing = OnExisting::kRefuse) const {
    SharedFile::make({directory_, "a"}, on_existing, std::as_bytes(std::span("head", 4)), 1 << 20);
  }
  std::unique_ptr<SharedFile> open() const { return SharedFile::open(directory_, "a"); }

  testing::TempDir dir_;
  Directory directory_{dir_.path()};
};

TEST_F(SharedFiles, AppearWholeAndHoldHoles) {
  EXPECT_EQ(open(), nullptr);
  make();
  const auto file = open();
  EXPECT_EQ(file->size(), 1 << 20);
  EXPECT_LT(file->disk_bytes(), 1 << 16);
  std::vector<std::byte> bytes(6);
  ASSERT_TRUE(file->read(0, bytes));
  EXPECT_EQ(std::string(reinterpret_cast<const char*>(bytes.data()), 6),
            std::string("head\0\0", 6));
  EXPECT_FALSE(file->read((1 << 20) - 5, bytes));
  EXPECT_THROW(make(), Error);
  make(OnExisting::kReplace);
  EXPECT_FALSE(file->is_same(*open()));
  EXPECT_FALSE(file->has_name());
}

TEST_F(SharedFiles, ShowWhatOthersWrite) {
  make();
  const auto ours = open(), theirs = open();
  EXPECT_TRUE(ours->is_same(*theirs));
  const auto bytes = std::as_bytes(std::span("there", 5));
  theirs->write(70'000, bytes);
  theirs->sync();
  std::vector<std::byte> found(5);
  ASSERT_TRUE(ours->read(70'000, found));
  EXPECT_TRUE(std::ranges::equal(found, bytes));
}

TEST_F(SharedFiles, ThatWereCutAreNotMadeLongerAgain) {
  make();
  const auto file = open();
  std::filesystem::resize_file(dir_.file("a"), 100);
  EXPECT_THROW(file->write(500, std::as_bytes(std::span("there", 5))), Error);
  EXPECT_EQ(std::filesystem::file_size(dir_.file("a")), 100);
}

TEST_F(SharedFiles, AreRemovedOnceNobodyHasThemOpen) {
  make();
  auto ours = open(), theirs = open();
  EXPECT_FALSE(SharedFile::remove_unless_open(directory_, "a"));
  ours.reset();
  EXPECT_EQ(testing::run_in_child([&] { return !SharedFile::remove_unless_open(directory_, "a"); }),
            0);
  theirs.reset();
  EXPECT_TRUE(SharedFile::remove_unless_open(directory_, "a"));
  EXPECT_EQ(open(), nullptr);
  EXPECT_TRUE(SharedFile::remove_unless_open(directory_, "a"));
}

TEST_F(SharedFiles, AreFilesAndNothingElse) {
  std::filesystem::create_directory(dir_.file("a"));
  EXPECT_THROW(open(), Error);
  std::filesystem::remove(dir_.file("a"));
  std::filesystem::create_symlink(dir_.write("other", "mine"), dir_.file("a"));
  EXPECT_THROW(open(), Error);
}

}  // namespace
}  // namespace cellfeed::io
