#include "cellfeed/io/directory.h"

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

Directory::Directory(const std::string& path) : open_(file_system_of(path).open_directory(path)) {}

int Directory::fd() const {
  const int fd = open_->fd();
  if (fd < 0)
    throw_error(ErrorKind::kUnsupported, path(),
                "is not on a local disk, where this has to be done: name a local directory");
  return fd;
}

}  // namespace cellfeed::io
