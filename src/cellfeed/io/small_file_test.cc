#include "cellfeed/io/small_file.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/testing/temp_dir.h"

namespace cellfeed::io {
namespace {

using testing::TempDir;

ErrorKind kind_of(const std::string& path, std::int64_t max_bytes = 1 << 20) {
  try {
    read_small_file(path, max_bytes);
  } catch (const Error& error) {
    EXPECT_EQ(error.path(), path);
    return error.kind();
  }
  ADD_FAILURE() << path << " was read";
  return ErrorKind::kInternal;
}

TEST(SmallFile, GivesEveryByte) {
  const TempDir dir;
  std::string text = "a\0b\n";
  text.resize(100'000, 'x');
  dir.write("file", text);
  EXPECT_EQ(read_small_file(dir.file("file"), 100'000), text);
  EXPECT_EQ(kind_of(dir.file("file"), 99'999), ErrorKind::kCorruptData);
}

TEST(SmallFile, AnEmptyFileIsEmpty) {
  const TempDir dir;
  dir.write("file", "");
  EXPECT_EQ(read_small_file(dir.file("file"), 0), "");
}

// Each of these would block, or never end, if it were opened and read as a file.
TEST(SmallFile, RefusesWhatIsNotARegularFile) {
  const TempDir dir;
  ASSERT_EQ(::mkfifo(dir.file("pipe").c_str(), 0600), 0);
  EXPECT_EQ(kind_of(dir.file("pipe")), ErrorKind::kIo);
  EXPECT_EQ(kind_of("/dev/zero"), ErrorKind::kIo);
  std::filesystem::create_symlink("/dev/zero", dir.file("link"));
  EXPECT_EQ(kind_of(dir.file("link")), ErrorKind::kIo);
  EXPECT_EQ(kind_of(dir.path()), ErrorKind::kIo);
  const int socket = ::socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const std::string name = dir.file("socket");
  ASSERT_LT(name.size(), sizeof(address.sun_path));
  std::memcpy(address.sun_path, name.c_str(), name.size());
  ASSERT_EQ(::bind(socket, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_EQ(kind_of(name), ErrorKind::kIo);
  ::close(socket);
}

TEST(SmallFile, SaysWhatIsMissing) {
  const TempDir dir;
  EXPECT_EQ(kind_of(dir.file("nothing")), ErrorKind::kNotFound);
  EXPECT_THROW(read_small_file(dir.file(std::string("a\0b", 3)), 10), Error);
}

}  // namespace
}  // namespace cellfeed::io
