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
#include "cellfeed/testing/forked_child.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using ::testing::ElementsAre;
using testing::exit_code_in_child;
using ::testing::HasSubstr;
using testing::run_in_child;
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

std::optional<Error> thrown_by(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
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
    const auto error = thrown_by([&] { file.overwrite(offset, bytes_of("xx")); });
    ASSERT_TRUE(error);
    EXPECT_EQ(error->kind(), ErrorKind::kInvalidArgument);
  }
}

TEST(AtomicFile, RefusesAnExistingTargetAtOnce) {
  const TempDir dir;
  const std::string path = dir.write("out", "old");
  const auto error = thrown_by([&] { AtomicFile file(path); });
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
    const auto error = thrown_by([&] { file.commit(); });
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
  const auto error = thrown_by([&] { AtomicFile other(dir.file("gone/out")); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
}

TEST(AtomicFile, ForkedChildNeitherRemovesNorCommits) {
  const TempDir dir;
  auto file = std::make_unique<AtomicFile>(dir.file("out"));
  file->append(bytes_of("parent"));
  EXPECT_EQ(run_in_child([&] {
              const bool is_refused = thrown_by([&] { file->commit(); }).has_value();
              file.reset();
              return is_refused;
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
  const auto error = thrown_by([&] {
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
  const int code = exit_code_in_child([&] { return write_to_a_full_disk(dir); });
  if (code == 77) GTEST_SKIP() << "a small file system cannot be mounted here";
  EXPECT_EQ(code, 0);
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

// As if its writer were killed: the name stays, the descriptor goes.
void leave_a_dead_writers_file(const std::string& target) {
  EXPECT_EQ(run_in_child([&] {
              auto* file = new AtomicFile(target, OnExisting::kReplace);
              ::kill(::getpid(), SIGKILL);
              delete file;
              return true;
            }),
            100 + SIGKILL);
}

TEST(Leftovers, OfDeadWritersAreRemovedAndThoseOfLivingOnesStay) {
  const TempDir dir;
  const std::string target = dir.file("out.h5ad");
  leave_a_dead_writers_file(target);
  leave_a_dead_writers_file(dir.file("other.h5ad"));
  dir.write("out.h5ad.tmp-notes", "a user's own");
  ASSERT_EQ(names_in(dir).size(), 3u);
  AtomicFile living(target);
  remove_leftovers(target);
  EXPECT_EQ(names_in(dir).size(), 3u);
  living.append(bytes_of("alive"));
  living.commit();
  EXPECT_EQ(text_of(target), "alive");
  remove_leftovers(dir.file("other.h5ad"));
  EXPECT_THAT(names_in(dir), ElementsAre("out.h5ad", "out.h5ad.tmp-notes"));
}

TEST(Leftovers, ALinkPlantedUnderATemporaryNameIsNotFollowed) {
  const TempDir dir;
  dir.write("thesis.txt", "years of work");
  const std::string temp = make_temp_path(dir.file("out"));
  std::filesystem::create_symlink(dir.file("thesis.txt"), temp);
  write_small_file(dir.file("out"), "new");
  EXPECT_EQ(text_of(dir.file("thesis.txt")), "years of work");
  EXPECT_EQ(text_of(dir.file("out")), "new");
}

TEST(SmallFile, IsWrittenThroughALinkToItsPlaceAndNotToWhereItLeads) {
  const TempDir dir;
  dir.write("thesis.txt", "years of work");
  std::filesystem::create_symlink(dir.file("thesis.txt"), dir.file("vocab.json"));
  write_small_file(dir.file("vocab.json"), "{}");
  EXPECT_EQ(text_of(dir.file("thesis.txt")), "years of work");
  EXPECT_FALSE(std::filesystem::is_symlink(dir.file("vocab.json")));
}

TEST(SmallFile, MakesItsDirectories) {
  const TempDir dir;
  const std::string path = dir.file("a/b//c/file");
  write_small_file(path, "text");
  EXPECT_EQ(text_of(path), "text");
}

TEST(Directory, NamesWhatIsThereAndWhatIsMissing) {
  const TempDir dir;
  dir.write("b", "12");
  dir.write("a", "");
  const Directory directory(dir.path());
  EXPECT_THAT(directory.names(), ElementsAre("a", "b"));
  EXPECT_EQ(directory.file_bytes("b"), 2);
  EXPECT_EQ(directory.file_bytes("c"), std::nullopt);
  directory.remove("b");
  directory.remove("b");
  EXPECT_THAT(directory.names(), ElementsAre("a"));
  EXPECT_NO_THROW(directory.sync());
  EXPECT_THROW(Directory(dir.file("gone")), Error);
}

// Two ways of losing the place where a file is to appear: the directory is moved away and another
// takes its path, or it is removed and made again.
TEST(Directory, AFileIsNeverTakenForWrittenWhereAnotherDirectoryHasTakenThePath) {
  for (const bool is_moved : {true, false}) {
    const TempDir dir;
    const std::string path = dir.file("out");
    std::filesystem::create_directory(path);
    const Directory directory(path);
    AtomicFile file(FileTarget(directory, "shard"));
    file.append(bytes_of("cells"));
    if (is_moved)
      std::filesystem::rename(path, dir.file("moved"));
    else
      std::filesystem::remove_all(path);
    std::filesystem::create_directory(path);
    for (const auto& body :
         {std::function<void()>([&] { file.commit(); }),
          std::function<void()>([&] { directory.require_in_place(); }),
          std::function<void()>([&] { AtomicFile(FileTarget(directory, "next")).commit(); })}) {
      const auto error = thrown_by(body);
      ASSERT_TRUE(error);
      EXPECT_EQ(error->kind(), ErrorKind::kNotFound);
      EXPECT_THAT(error->what(), HasSubstr("replaced by another program"));
    }
    EXPECT_TRUE(std::filesystem::is_empty(path));
  }
}

TEST(DirectoryLock, SecondHolderIsToldWhoHoldsIt) {
  const TempDir dir;
  const DirectoryLock lock(dir.path());
  const auto error = thrown_by([&] { DirectoryLock second(dir.path()); });
  ASSERT_TRUE(error);
  EXPECT_EQ(error->kind(), ErrorKind::kAlreadyExists);
  EXPECT_THAT(error->what(), HasSubstr("process " + std::to_string(::getpid()) + ";"));
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
  EXPECT_EQ(run_in_child([&] {
              auto* lock = new DirectoryLock(dir.path());
              ::kill(::getpid(), SIGKILL);
              delete lock;
              return true;
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
              return true;
            }),
            0);
  EXPECT_THROW(DirectoryLock(dir.path()), Error);
}

TEST(DirectoryLock, MissingDirectoryIsNotFound) {
  const TempDir dir;
  const auto error = thrown_by([&] { DirectoryLock lock(dir.file("gone")); });
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
