#include "cellfeed/io/directory.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kTakenBytes = std::int64_t{1} << 20;

}  // namespace

void NewFile::take(int fd, std::int64_t bytes) {
  std::vector<std::byte> buffer(static_cast<std::size_t>(std::min(bytes, kTakenBytes)));
  for (std::int64_t at = 0; at < bytes;) {
    const auto wanted = static_cast<std::size_t>(std::min(bytes - at, kTakenBytes));
    const ssize_t n = retry_interrupted([&] { return ::pread(fd, buffer.data(), wanted, at); });
    if (n < 0) throw_errno(errno, path(), "read what is to be in it");
    if (n == 0) throw Error(ErrorKind::kIo, "what is to be in it became shorter", path());
    write(at, std::span(buffer).first(static_cast<std::size_t>(n)));
    at += n;
  }
}

Directory::Directory(const std::string& path) : open_(file_system_of(path).open_directory(path)) {}

int Directory::fd() const {
  const int fd = open_->fd();
  if (fd < 0)
    throw_error(ErrorKind::kUnsupported, path(),
                "is not on a local disk, where this has to be done: name a local directory");
  return fd;
}

}  // namespace cellfeed::io
