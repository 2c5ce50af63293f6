#include "cellfeed/cloud/cache/growing_copy.h"

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/cloud/cache/copies_under_way.h"
#include "cellfeed/io/crc.h"
#include "cellfeed/io/memory_source.h"
#include "cellfeed/io/small_file.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/faulty_byte_source.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::cloud {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t kSmallPart = 1000;
constexpr const char* kCopyName = "0123456789abcdef-0123456789abcdef-a.h5ad";

class GrowingCopies : public ::testing::Test {
 protected:
  // What is copied, in parts that begin at multiples of kSmallPart.
  std::shared_ptr<const io::ByteSource> remote() const {
    return io::make_memory_source("s3://b/a.h5ad", bytes_);
  }
  io::FileTarget target() const { return {io::Directory(dir_.path()), kCopyName}; }

  // Copies until the link fails at this part; the bytes asked of the link.
  std::int64_t copy(std::int64_t fail_at_part = -1) const {
    testing::Faults faults;
    if (fail_at_part >= 0) faults.fail_at_offset = fail_at_part * kSmallPart;
    const testing::FaultyByteSource faulty(remote(), faults);
    GrowingCopy copy(target(), kSmallPart);
    const std::int64_t before = copy.size();
    copy_rest(faulty, copy, kSmallPart);
    copy.publish("s3://b/a.h5ad", {});
    return faulty.size() - before;
  }
  void fail_at(std::int64_t part) const {
    try {
      copy(part);
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.kind(), ErrorKind::kIo);
    }
  }
  // Appends by hand: TSan lets no forked child of a program of threads start the one of copy_rest.
  void kill_a_writer_with(std::int64_t size) const {
    const int code = testing::exit_code_in_child([&] {
      GrowingCopy copy(target(), kSmallPart);
      for (std::int64_t begin = 0; begin < size; begin += kSmallPart)
        copy.append(std::span(bytes_).subspan(begin, std::min(kSmallPart, size - begin)));
      ::raise(SIGKILL);
      return 0;
    });
    ASSERT_EQ(code, 100 + SIGKILL);
  }

  std::vector<std::string> names() const { return io::Directory(dir_.path()).names(); }
  fs::path unfinished() const {
    for (const std::string& name : names())
      if (io::is_temp_name(name)) return dir_.file(name);
    return {};
  }
  void expect_whole() const {
    EXPECT_TRUE(io::read_small_file(dir_.file(kCopyName), 1 << 20) ==
                std::string(reinterpret_cast<const char*>(bytes_.data()), bytes_.size()));
    EXPECT_EQ(damage_of(io::Directory(dir_.path()), kept_copies(io::Directory(dir_.path())).at(0)),
              "");
    EXPECT_EQ(names(), (std::vector<std::string>{fmt::format(".{}.json", kCopyName), kCopyName}));
  }

  std::vector<std::byte> bytes_ = testing::random_bytes(10 * kSmallPart + 7, 1);
  testing::TempDir dir_;
};

TEST_F(GrowingCopies, AreMadeWholeWhereNothingIsThere) {
  EXPECT_EQ(copy(), std::ssize(bytes_));
  expect_whole();
}

TEST_F(GrowingCopies, OfAnEmptyObjectAreEmpty) {
  bytes_.clear();
  copy();
  expect_whole();
}

TEST_F(GrowingCopies, AreComparedWithTheChecksumOfTheStore) {
  const auto copy_expecting = [&](std::uint32_t crc) {
    std::string expected;
    for (int shift = 24; shift >= 0; shift -= 8) expected += static_cast<char>(crc >> shift & 0xff);
    fail_at(4);  // what another writer left is part of it
    GrowingCopy copy(target(), kSmallPart, ContentChecksum{ChecksumKind::kCrc32c, expected});
    copy_rest(*remote(), copy, kSmallPart);
    copy.publish("s3://b/a.h5ad", {});
  };
  const std::uint32_t crc = io::crc32c(bytes_);
  try {
    copy_expecting(crc + 1);
    FAIL() << "no error";
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kCorruptData);
    EXPECT_THAT(error.what(), ::testing::HasSubstr("s3://b/a.h5ad: the bytes that came are not"));
  }
  EXPECT_EQ(names(), std::vector<std::string>());
  copy_expecting(crc);
  expect_whole();
}

TEST_F(GrowingCopies, GoOnWhereTheLinkFailed) {
  fail_at(3);
  fail_at(7);
  EXPECT_EQ(fs::file_size(unfinished()), 7 * kSmallPart);
  EXPECT_FALSE(state_of_copy(io::Directory(dir_.path()), kCopyName, std::ssize(bytes_)).is_there);
  EXPECT_EQ(copy(), 3 * kSmallPart + 7);
  expect_whole();
}

TEST_F(GrowingCopies, GoOnWhereAWriterWasKilled) {
  ASSERT_NO_FATAL_FAILURE(kill_a_writer_with(4 * kSmallPart));
  EXPECT_EQ(copy(), 6 * kSmallPart + 7);
  expect_whole();
}

TEST_F(GrowingCopies, WhoseLastPartIsThereNeedOnlyTheirName) {
  ASSERT_NO_FATAL_FAILURE(kill_a_writer_with(std::ssize(bytes_)));
  EXPECT_EQ(copy(), 0);
  expect_whole();
}

TEST_F(GrowingCopies, LoseThePartsFromTheFirstThatIsDamaged) {
  fail_at(8);
  {
    std::fstream file(unfinished(), std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(5 * kSmallPart + 17);
    file.put(static_cast<char>(~static_cast<unsigned char>(bytes_[5 * kSmallPart + 17])));
  }
  EXPECT_EQ(copy(), 5 * kSmallPart + 7);
  expect_whole();
}

// A machine that goes down may leave zeros, a shorter file, or notes of parts that never came.
TEST_F(GrowingCopies, BelieveNoBytesThatAreNotNoted) {
  fail_at(6);
  fs::resize_file(unfinished(), 20 * kSmallPart);
  EXPECT_EQ(copy(), 4 * kSmallPart + 7);
  expect_whole();
  fs::remove(dir_.file(kCopyName));

  fail_at(6);
  fs::resize_file(unfinished(), 2 * kSmallPart + 1);
  EXPECT_EQ(copy(), 8 * kSmallPart + 7);
  expect_whole();
  fs::remove(dir_.file(kCopyName));

  fail_at(6);
  fs::resize_file(dir_.file(fmt::format(".{}.parts", kCopyName)), 40);  // in the middle of a line
  EXPECT_EQ(copy(), 9 * kSmallPart + 7);
  expect_whole();
  fs::remove(dir_.file(kCopyName));

  fail_at(6);
  fs::remove(dir_.file(fmt::format(".{}.parts", kCopyName)));
  EXPECT_EQ(copy(), std::ssize(bytes_));
  expect_whole();
}

TEST_F(GrowingCopies, LeaveALivingWritersFileAlone) {
  GrowingCopy living(target(), kSmallPart);
  living.append(std::span(bytes_).first(kSmallPart));
  const fs::path file = unfinished();
  remove_unfinished(io::Directory(dir_.path()));
  EXPECT_TRUE(fs::exists(file));
  GrowingCopy other(target(), kSmallPart);
  EXPECT_EQ(other.size(), 0);
}

TEST_F(GrowingCopies, OfOtherVersionsAndUnfinishedOnesAreRemovedWithTheirNotes) {
  fail_at(6);
  const io::Directory directory(dir_.path());
  remove_other_versions(directory, "fedcba9876543210-", "");
  EXPECT_FALSE(unfinished().empty());
  remove_other_versions(directory, "0123456789abcdef-", "0123456789abcdef-1111111111111111-a.h5ad");
  EXPECT_TRUE(names().empty());
  fail_at(6);
  remove_unfinished(directory);
  EXPECT_TRUE(names().empty());
}

// Whole copies and blocks: one kind may have been asked for before, and the other now.
TEST_F(GrowingCopies, OtherVersionsOfBothKindsAreRemoved) {
  const std::string object = "0123456789abcdef-", old = object + "1111111111111111-a.h5ad";
  const std::string now = object + "2222222222222222-a.h5ad";
  const std::string other = "fedcba9876543210-1111111111111111-b.h5ad";
  for (const std::string& name : {old, now, other})
    for (const char* prefix : {"", "blocks-"}) dir_.write(prefix + name, "x");
  remove_other_versions(io::Directory(dir_.path()), object, now);
  const std::vector<std::string> left = names();
  EXPECT_EQ(std::set<std::string>(left.begin(), left.end()),
            (std::set<std::string>{now, "blocks-" + now, other, "blocks-" + other}));
}

TEST_F(GrowingCopies, TellHowFarTheyAre) {
  fail_at(2);
  std::vector<std::int64_t> seen;
  observe_copies([&](const std::vector<CopyProgress>& copies) {
    ASSERT_EQ(copies.size(), 1U);
    EXPECT_EQ(copies[0].of_object, "s3://b/a.h5ad");
    EXPECT_EQ(copies[0].total, std::ssize(bytes_));
    EXPECT_GT(copies[0].rate, 0);
    seen.push_back(copies[0].done);
  });
  copy();
  observe_copies({});
  ASSERT_EQ(seen.size(), 9U);
  EXPECT_EQ(seen.front(), 3 * kSmallPart);
  EXPECT_EQ(seen.back(), std::ssize(bytes_));
  EXPECT_TRUE(copies_under_way().empty());
}

}  // namespace
}  // namespace cellfeed::cloud
