#include "cellfeed/io/write_target.h"

#include <gtest/gtest.h>

#include <cerrno>
#include <filesystem>
#include <fstream>

#include "cellfeed/base/error.h"

namespace cellfeed::io {
namespace {

std::string folder_error(const std::string& path) {
  try {
    require_writable_folder(path);
  } catch (const Error& error) {
    return error.what();
  }
  return {};
}

TEST(WriteTarget, AFolderThatIsThereIsFine) {
  EXPECT_EQ(folder_error("a_file.h5ad"), "");
  EXPECT_EQ(folder_error("/tmp/a_file.h5ad"), "");
}

TEST(WriteTarget, AMissingFolderIsNamed) {
  EXPECT_EQ(folder_error("/no/such/a.h5ad"),
            "/no/such/a.h5ad: cannot be written: there is no folder '/no/such'; make it first");
}

TEST(WriteTarget, AFileIsNoFolder) {
  const auto file = std::filesystem::temp_directory_path() /
                    ("cellfeed_write_target_" + std::to_string(::getpid()));
  std::ofstream(file) << "x";
  EXPECT_NE(folder_error((file / "a.h5ad").string()).find("is not a folder"), std::string::npos);
  std::filesystem::remove(file);
}

TEST(WriteTarget, AFolderThatMayNotBeWrittenToIsNamed) {
  EXPECT_THROW(
      {
        try {
          throw_cannot_write(EACCES, "/data/a.h5ad");
        } catch (const Error& error) {
          EXPECT_EQ(error.kind(), ErrorKind::kIo);
          EXPECT_NE(std::string(error.what()).find("no file can be made in '/data'"),
                    std::string::npos);
          throw;
        }
      },
      Error);
}

}  // namespace
}  // namespace cellfeed::io
