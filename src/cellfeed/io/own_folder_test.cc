#include "cellfeed/io/own_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <functional>
#include <map>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

namespace fs = std::filesystem;
using ::testing::ElementsAre;
using testing::TempDir;

bool is_row_file(std::string_view name) { return name.ends_with(".row"); }

bool is_refused_as(const std::function<void()>& call, ErrorKind kind) {
  try {
    call();
  } catch (const Error& error) {
    return error.kind() == kind;
  }
  return false;
}

std::vector<std::string> names_at(const std::string& path) { return Directory(path).names(); }

TEST(OwnFolder, IsFoundOnceItWasMade) {
  const TempDir dir;
  EXPECT_FALSE(OwnFolder::find(dir.path(), "kept", is_row_file));
  OwnFolder::make(dir.path(), "kept", is_row_file);
  OwnFolder::make(dir.path(), "kept", is_row_file);
  EXPECT_THAT(names_at(dir.file("kept")), ElementsAre(".cellfeed"));
  EXPECT_TRUE(OwnFolder::find(dir.path(), "kept", is_row_file));
}

// A process that is killed as it makes one leaves it so.
TEST(OwnFolder, AnEmptyOneIsOursOnceItIsMarked) {
  const TempDir dir;
  fs::create_directory(dir.file("kept"));
  EXPECT_FALSE(OwnFolder::find(dir.path(), "kept", is_row_file));
  OwnFolder::make(dir.path(), "kept", is_row_file);
  dir.write("kept/a.row", "bytes");
  EXPECT_TRUE(OwnFolder::find(dir.path(), "kept", is_row_file));
}

TEST(OwnFolder, RemovesWhatIsOursAlone) {
  const TempDir dir;
  const OwnFolder folder = OwnFolder::make(dir.path(), "kept", is_row_file);
  const std::string temporary = fs::path(make_temp_path("a.row")).filename();
  for (const std::string& name : {std::string("a.row"), std::string("b.row"), temporary,
                                  std::string(".some.lock"), std::string("mine")})
    dir.write("kept/" + name, "bytes");
  EXPECT_EQ(folder.foreign_name(), "mine");
  folder.empty("a.row");
  EXPECT_THAT(names_at(dir.file("kept")), ElementsAre(".cellfeed", ".some.lock", "a.row", "mine"));
  folder.remove();
  EXPECT_THAT(names_at(dir.file("kept")), ElementsAre(".cellfeed", "mine"));
  fs::remove(dir.file("kept/mine"));
  folder.remove();
  EXPECT_FALSE(fs::exists(dir.file("kept")));
}

TEST(OwnFolder, LinksFilesAndFoldersOfOthersAreNeither) {
  const TempDir dir;
  OwnFolder::make(dir.path(), "elsewhere", is_row_file);
  dir.write("elsewhere/a.row", "bytes");
  const std::map<std::string, std::function<void(const std::string& path)>> plants = {
      {"link", [&](auto& path) { fs::create_symlink(dir.file("elsewhere"), path); }},
      {"link to nothing", [&](auto& path) { fs::create_symlink(dir.file("nothing"), path); }},
      {"file", [&](auto& path) { fs::copy_file(dir.file("elsewhere/a.row"), path); }},
      {"folder of others",
       [&](auto& path) {
         fs::create_directory(path);
         fs::copy_file(dir.file("elsewhere/a.row"), path + "/a.row");
       }},
  };
  for (const auto& [name, plant] : plants) {
    plant(dir.file(name));
    EXPECT_FALSE(OwnFolder::find(dir.path(), name, is_row_file)) << name;
    EXPECT_TRUE(is_refused_as([&] { OwnFolder::make(dir.path(), name, is_row_file); },
                              ErrorKind::kAlreadyExists))
        << name;
  }
  EXPECT_FALSE(fs::exists(dir.file("nothing")));
  EXPECT_THAT(names_at(dir.file("elsewhere")), ElementsAre(".cellfeed", "a.row"));
  EXPECT_THAT(names_at(dir.file("folder of others")), ElementsAre("a.row"));
}

TEST(OwnFolder, ItsFilesAreLinksThatAreRemovedAndNotFollowed) {
  const TempDir dir;
  const OwnFolder folder = OwnFolder::make(dir.path(), "kept", is_row_file);
  fs::create_symlink(dir.write("thesis", "years of work"), dir.file("kept/a.row"));
  folder.remove();
  EXPECT_TRUE(fs::exists(dir.file("thesis")));
  EXPECT_FALSE(fs::exists(dir.file("kept")));
}

TEST(OwnFolder, IsBelievedWhereNobodyElseCanHaveWrittenToIt) {
  const TempDir dir;
  constexpr std::uint32_t kOther = 65534;
  const mode_t umask_before = ::umask(0);
  const OwnFolder folder = OwnFolder::make(dir.path(), "kept", is_row_file);
  write_small_file({folder.directory(), "a.row"}, "bytes");
  ::umask(umask_before);
  const std::string path = dir.file("kept");
  const auto is_believed = [&](std::uint32_t user) {
    const bool is_believable = is_believable_folder(path, user);
    EXPECT_NE(is_believable,
              is_refused_as([&] { folder.require_believable(user); }, ErrorKind::kIo));
    return is_believable;
  };
  EXPECT_TRUE(is_believed(0));
  struct stat file {};
  ASSERT_EQ(::stat((path + "/a.row").c_str(), &file), 0);
  EXPECT_EQ(file.st_mode & 07777, 0644U);
  for (const mode_t mode : {0775U, 0757U}) {
    ASSERT_EQ(::chmod(path.c_str(), mode), 0);
    EXPECT_FALSE(is_believed(0)) << mode;
  }
  ASSERT_EQ(::chmod(path.c_str(), 0755), 0);
  fs::create_symlink(path, dir.file("link"));
  EXPECT_FALSE(is_believable_folder(dir.file("link"), 0));
  EXPECT_TRUE(is_believable_folder(dir.file("nothing"), 0));
  if (::geteuid() != 0) return;
  ASSERT_EQ(::chown(path.c_str(), kOther, kOther), 0);
  EXPECT_FALSE(is_believed(0));
  EXPECT_TRUE(is_believed(kOther));
}

}  // namespace
}  // namespace cellfeed::io
