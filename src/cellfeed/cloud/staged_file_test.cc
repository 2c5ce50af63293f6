#include "cellfeed/cloud/staged_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/byte_source_conformance.h"
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::cloud {
namespace {

// What was uploaded, and how often.
struct Uploaded {
  std::vector<std::byte> bytes;
  int n_times = 0;

  StagedFile::Upload upload() {
    return [this](const StagedFile::Content& content) {
      bytes.resize(static_cast<std::size_t>(content.size));
      // In two parts, the later one first.
      const auto half = bytes.size() / 2;
      content.read(static_cast<std::int64_t>(half), std::span(bytes).subspan(half));
      content.read(0, std::span(bytes).first(half));
      ++n_times;
    };
  }
};

class StagedFiles : public ::testing::TestWithParam<std::size_t> {};

TEST_P(StagedFiles, AreUploadedAsTheyWereWritten) {
  auto expected = testing::random_bytes(GetParam(), 1);
  Uploaded uploaded;
  StagedFile file("s3://b/a", uploaded.upload());
  constexpr std::size_t kPiece = 3 << 20;
  for (std::size_t at = 0; at < expected.size(); at += kPiece)
    file.write(static_cast<std::int64_t>(at),
               std::span(expected).subspan(at, std::min(kPiece, expected.size() - at)));
  if (expected.size() >= 8) {
    const auto header = testing::random_bytes(8, 2);
    file.write(0, header);
    std::ranges::copy(header, expected.begin());
  }
  EXPECT_EQ(uploaded.n_times, 0);
  EXPECT_TRUE(file.is_open());
  file.publish();
  EXPECT_FALSE(file.is_open());
  EXPECT_EQ(uploaded.n_times, 1);
  EXPECT_TRUE(uploaded.bytes == expected);
  EXPECT_THROW(file.publish(), Error);
  EXPECT_EQ(uploaded.n_times, 1);
}

INSTANTIATE_TEST_SUITE_P(InMemoryAndOnDisk, StagedFiles,
                         ::testing::Values(0, 1, 1000, 16 << 20, (16 << 20) + 1, 40 << 20));

TEST(StagedFile, HolesAreZeros) {
  for (const std::int64_t offset : {std::int64_t{5}, std::int64_t{17} << 20}) {
    Uploaded uploaded;
    StagedFile file("s3://b/a", uploaded.upload());
    file.write(offset, testing::random_bytes(1, 1));
    file.publish();
    ASSERT_EQ(std::ssize(uploaded.bytes), offset + 1);
    EXPECT_TRUE(std::all_of(uploaded.bytes.begin(), uploaded.bytes.end() - 1,
                            [](std::byte byte) { return byte == std::byte{0}; }));
  }
}

TEST(StagedFile, WhatIsNotPublishedIsNotUploadedAndLeavesNothing) {
  const testing::TempDir temp;
  ::setenv("TMPDIR", temp.path().c_str(), 1);
  Uploaded uploaded;
  {
    StagedFile file("s3://b/a", uploaded.upload());
    file.write(0, std::vector<std::byte>(17 << 20));
    EXPECT_TRUE(std::filesystem::is_empty(temp.path()));
  }
  ::unsetenv("TMPDIR");
  EXPECT_EQ(uploaded.n_times, 0);
}

TEST(StagedFile, AFailedUploadMayBeTriedAgain) {
  bool fails = true;
  StagedFile file("s3://b/a", [&](const StagedFile::Content& content) {
    EXPECT_EQ(content.size, 3);
    if (fails) throw Error(ErrorKind::kIo, "no link");
  });
  file.write(0, std::vector<std::byte>(3));
  EXPECT_THROW(file.publish(), Error);
  EXPECT_TRUE(file.is_open());
  fails = false;
  file.publish();
}

TEST(StagedFile, NoPlaceToKeepItIsNamed) {
  ::setenv("TMPDIR", "/proc/absent", 1);
  StagedFile file("s3://b/a", [](const StagedFile::Content&) {});
  EXPECT_ANY_THROW(file.write(0, std::vector<std::byte>(17 << 20)));
  ::unsetenv("TMPDIR");
}

TEST(StagedFile, AForkedChildDoesNotPublishIt) {
  Uploaded uploaded;
  StagedFile file("s3://b/a", uploaded.upload());
  file.write(0, std::vector<std::byte>(17 << 20));
  EXPECT_EQ(testing::run_in_child([&] {
              if (file.is_open()) return false;
              try {
                file.publish();
              } catch (const Error&) {
                return uploaded.n_times == 0;
              }
              return false;
            }),
            0);
  file.publish();
  EXPECT_EQ(uploaded.bytes.size(), std::size_t{17} << 20);
}

}  // namespace
}  // namespace cellfeed::cloud
