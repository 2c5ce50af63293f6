#include "cellfeed/io/atomic_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <optional>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using testing::TempDir;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

std::string text_of(const std::string& path) {
  const auto bytes = TempDir::read_all(path);
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::vector<std::string> names_in(const TempDir& dir) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(dir.path())) {
    names.push_back(entry.path().filename());
  }
  std::ranges::sort(names);
  return names;
}

std::optional<Error> error_of(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

int run_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) ::_exit(body());
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

TEST(AtomicFile, AppearsWholeAtCommitAndNotBefore) {
  const TempDir dir;
  AtomicFile file(dir.file("out"));
  file.append(bytes_of("hello "));
  file.append(bytes_of("world"));
  EXPECT_EQ(file.size(), 11);
  ASSERT_EQ(names_in(dir).size(), 1u);
  EXPECT_TRUE(is_temp_name(names_in(dir)[0]));
  file.commit();
  EXPECT_THAT(names_in(dir), ElementsAre("out"));
  EXPECT_EQ(text_of(dir.file("out")), "hello world");
}

TEST(AtomicFile, LeavesNothingWithoutCommit) {
  const TempDir dir;
  {
    AtomicFile file(dir.file("out"));
    file.append(bytes_of("half"));
  }
  EXPECT_TRUE(names_in(dir).empty());
}

TEST(AtomicFile, AnyMixOfSmallAndLargeAppendsKeepsTheBytes) {
  const TempDir dir;
  std::mt19937 random(1);
  std::string expected;
  AtomicFile file(dir.file("out"), OnExisting::kRefuse, 64);
  for (int i = 0; i < 200; ++i) {
    const std::string piece(random() % 150, static_cast<char>('a' + i % 26));
    file.append(bytes_of(piece));
    expected += piece;
    EXPECT_EQ(file.size(), std::ssize(expected));
    if (i % 10 == 9) {
      const std::size_t at = random() % (expected.size() - 3);
      file.overwrite(static_cast<std::int64_t>(at), bytes_of("XYZ"));
      expected.replace(at, 3, "XYZ");
    }
  }
  file.commit();
  EXPECT_EQ(text_of(dir.file("out")), expected);
}

TEST(AtomicFile, OverwriteStaysInsideWhatWasAppended) {
  const TempDir dir;
  AtomicFile file(dir.file("out"));
  file.append(bytes_of("abc"));
  for (const std::int64_t offset : {-1, 2, 3, 100}) {
    const auto error = error_of([&] { file.overwrite(offset, bytes_of("xx")); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidArgument);
  }
}

TEST(AtomicFile, RefusesAnExistingTargetAtOnce) {
  const TempDir dir;
  const std::string path = dir.write("out", "old");
  const auto error = error_of([&] { AtomicFile file(path); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kAlreadyExists);
  EXPECT_EQ(error->path(), path);
}

TEST(AtomicFile, RefusesATargetThatAppearedWhileWriting) {
  const TempDir dir;
  {
    AtomicFile file(dir.file("out"));
    file.append(bytes_of("new"));
    dir.write("out", "old");
    const auto error = error_of([&] { file.commit(); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kAlreadyExists);
  }
  EXPECT_THAT(names_in(dir), ElementsAre("out"));
  EXPECT_EQ(text_of(dir.file("out")), "old");
}

TEST(AtomicFile, ReplacesWhenAsked) {
  const TempDir dir;
  AtomicFile file(dir.write("out", "old"), OnExisting::kReplace);
  file.append(bytes_of("new"));
  EXPECT_EQ(text_of(dir.file("out")), "old");
  file.commit();
  EXPECT_EQ(text_of(dir.file("out")), "new");
}

TEST(AtomicFile, RefusesWritesAfterCommitAndTargetsThatCannotBe) {
  const TempDir dir;
  AtomicFile file(dir.file("out"));
  file.commit();
  EXPECT_THROW(file.append(bytes_of("x")), Error);
  EXPECT_THROW(file.commit(), Error);
  EXPECT_THROW(AtomicFile(dir.path(), OnExisting::kReplace), Error);
  const auto error = error_of([&] { AtomicFile other(dir.file("gone/out")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
}

TEST(AtomicFile, ForkedChildNeitherRemovesNorCommits) {
  const TempDir dir;
  auto file = std::make_unique<AtomicFile>(dir.file("out"));
  file->append(bytes_of("parent"));
  EXPECT_EQ(run_in_child([&] {
              const bool is_refused = error_of([&] { file->commit(); }).has_value();
              file.reset();
              return is_refused ? 0 : 1;
            }),
            0);
  file->commit();
  EXPECT_EQ(text_of(dir.file("out")), "parent");
}

// 77: this machine lets nobody mount.
int write_to_a_full_disk(const TempDir& dir) {
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) return 77;
  ::mount("none", "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", dir.path().c_str(), "tmpfs", 0, "size=256k") != 0) return 77;
  const auto error = error_of([&] {
    AtomicFile file(dir.file("out"));
    const std::string piece(50000, 'x');
    for (int i = 0; i < 100; ++i) file.append(bytes_of(piece));
    file.commit();
  });
  if (!error || error->kind() != ErrorKind::kNoSpace) return 1;
  if (error->path() != dir.file("out")) return 2;
  return names_in(dir).empty() ? 0 : 3;
}

TEST(AtomicFile, FullDiskIsNoSpaceNamesTheFileAndLeavesNothing) {
  const TempDir dir;
  const int code = run_in_child([&] { return write_to_a_full_disk(dir); });
  if (code == 77) GTEST_SKIP() << "a small file system cannot be mounted here";
  EXPECT_EQ(code, 0);
}

TEST(PublishFile, RenamesWithoutReplacing) {
  const TempDir dir;
  const std::string target = dir.file("out");
  const std::string temp = make_temp_path(target);
  dir.write(std::filesystem::path(temp).filename().string(), "new");
  dir.write("out", "old");
  const auto error = error_of([&] { publish_file(temp, target); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kAlreadyExists);
  EXPECT_EQ(text_of(temp), "new");
  publish_file(temp, target, OnExisting::kReplace);
  EXPECT_EQ(text_of(target), "new");
  EXPECT_THAT(names_in(dir), ElementsAre("out"));
}

TEST(TempName, IsToldFromOtherNames) {
  const auto name = [](const std::string& path) {
    return std::filesystem::path(make_temp_path(path)).filename().string();
  };
  EXPECT_TRUE(is_temp_name(name("a/shard_000000.cells")));
  EXPECT_NE(make_temp_path("x"), make_temp_path("x"));
  for (const char* other : {"shard_000000.cells", "x.tmp-", "x.tmp-1-2", "x.tmp-a-0123456789abcdef",
                            ".tmp-1-0123456789abcdef", "x.tmp-1-0123456789abcdeg", ""}) {
    EXPECT_FALSE(is_temp_name(other)) << other;
  }
}

TEST(FsyncDirectory, NamesAMissingDirectory) {
  const TempDir dir;
  EXPECT_NO_THROW(fsync_directory(dir.path()));
  EXPECT_THROW(fsync_directory(dir.file("gone")), Error);
}

TEST(DirectoryLock, SecondHolderIsToldWhoHoldsIt) {
  const TempDir dir;
  const DirectoryLock lock(dir.path());
  const auto error = error_of([&] { DirectoryLock second(dir.path()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kAlreadyExists);
  EXPECT_THAT(error->what(), HasSubstr("process " + std::to_string(::getpid())));
}

TEST(DirectoryLock, LeavesNoFileAndCanBeTakenAgain) {
  const TempDir dir;
  for (int i = 0; i < 3; ++i) {
    const DirectoryLock lock(dir.path());
    EXPECT_THAT(names_in(dir), ElementsAre(".lock"));
  }
  EXPECT_TRUE(names_in(dir).empty());
}

TEST(DirectoryLock, IsFreeAfterItsHolderWasKilled) {
  const TempDir dir;
  EXPECT_EQ(run_in_child([&]() -> int {
              auto* lock = new DirectoryLock(dir.path());
              ::kill(::getpid(), SIGKILL);
              delete lock;
              return 0;
            }),
            100 + SIGKILL);
  EXPECT_THAT(names_in(dir), ElementsAre(".lock"));
  EXPECT_NO_THROW(DirectoryLock(dir.path()));
}

TEST(DirectoryLock, ForkedChildLeavesItAlone) {
  const TempDir dir;
  auto lock = std::make_unique<DirectoryLock>(dir.path());
  EXPECT_EQ(run_in_child([&] {
              lock.reset();
              return 0;
            }),
            0);
  EXPECT_THROW(DirectoryLock(dir.path()), Error);
}

TEST(DirectoryLock, MissingDirectoryIsNotFound) {
  const TempDir dir;
  const auto error = error_of([&] { DirectoryLock lock(dir.file("gone")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
}

// Never two at once, whatever the interleaving of lock, unlink and open.
TEST(DirectoryLock, ExcludesProcessesThatRaceForIt) {
  const TempDir dir;
  const std::string guard = dir.file("guard");
  const auto compete = [&]() -> int {
    for (int i = 0; i < 60; ++i) {
      try {
        const DirectoryLock lock(dir.path());
        if (::mkdir(guard.c_str(), 0700) != 0) return 1;  // someone else is inside
        ::rmdir(guard.c_str());
      } catch (const Error& error) {
        if (error.kind() != ErrorKind::kAlreadyExists) return 2;
      }
    }
    return 0;
  };
  std::vector<pid_t> children(3);
  for (auto& child : children) {
    child = ::fork();
    if (child == 0) ::_exit(compete());
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  }
}

}  // namespace
}  // namespace cellfeed::io
