#include "cellfeed/io/file_system.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <memory>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/file_system_conformance.h"
#include "cellfeed/testing/memory_file_system.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::testing {
namespace {

struct Local {
  static constexpr bool kKeepsWhatIsOpen = true;
  TempDir dir;
  const std::string& root() const { return dir.path(); }
};

struct InMemory {
  static constexpr bool kKeepsWhatIsOpen = true;
  std::shared_ptr<MemoryFileSystem> files = std::make_shared<MemoryFileSystem>();
  io::FileSystemRegistration registration{"memory", files};
  std::string root() const {
    files->make_directories("memory://store/place");
    return "memory://store/place";
  }
};

using FileSystems = ::testing::Types<Local, InMemory>;
INSTANTIATE_TYPED_TEST_SUITE_P(All, FileSystemConformance, FileSystems);

std::string scheme_error(const std::string& path) {
  try {
    io::file_system_of(path);
  } catch (const Error& error) {
    EXPECT_EQ(error.kind(), ErrorKind::kUnsupported);
    return error.what();
  }
  return {};
}

TEST(FileSystem, AnUnknownSchemeIsRefusedAndTheKnownOnesAreListed) {
  const io::FileSystemRegistration known("memory", std::make_shared<MemoryFileSystem>());
  EXPECT_NE(scheme_error("s3://bucket/a").find("local paths, memory://"), std::string::npos);
  EXPECT_NE(scheme_error("s3://bucket/a").find("s3://bucket/a: no file system"), std::string::npos);
  EXPECT_EQ(scheme_error("memory://a"), "");
}

TEST(FileSystem, AColonMakesNoScheme) {
  for (const char* path : {"a:/b", "C://b", "a b://c", "://c", "a/b://c", "", "s3:/bucket"})
    EXPECT_TRUE(io::is_local(path)) << path;
  EXPECT_FALSE(io::is_local("s3://"));
}

TEST(FileSystem, ASchemeIsTakenOnce) {
  const auto files = std::make_shared<MemoryFileSystem>();
  const io::FileSystemRegistration first("memory", files);
  EXPECT_THROW(io::FileSystemRegistration("memory", files), Error);
  EXPECT_THROW(io::FileSystemRegistration("m", files), Error);
  EXPECT_THROW(io::FileSystemRegistration("a b", files), Error);
}

TEST(FileSystem, ALinkIsToldFromWhatItLeadsTo) {
  const TempDir dir;
  io::write_small_file(dir.file("kept/a"), "a");
  ASSERT_EQ(::symlink(dir.file("kept").c_str(), dir.file("link").c_str()), 0);
  EXPECT_EQ(io::file_system_of(dir.path()).name_kind(dir.file("link")), io::NameKind::kLink);
  EXPECT_THROW(io::remove(dir.file("kept")), Error);
  io::remove(dir.file("link"));
  EXPECT_TRUE(io::exists(dir.file("kept/a")));
}

TEST(FileSystem, WhatNeedsAFileOfTheSystemSaysSo) {
  const InMemory memory;
  const io::Directory directory(memory.root());
  EXPECT_FALSE(directory.is_local());
  EXPECT_EQ(kind_thrown_by([&] { directory.fd(); }), ErrorKind::kUnsupported);
}

}  // namespace
}  // namespace cellfeed::testing
