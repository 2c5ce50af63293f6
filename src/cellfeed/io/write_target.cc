#include "cellfeed/io/write_target.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::io {
namespace {

std::string folder_of(const std::string& path) {
  const std::string folder = std::filesystem::path(path).parent_path().string();
  return folder.empty() ? "." : folder;
}

}  // namespace

void require_writable_folder(const std::string& path) {
  file_system_of(path).require_writable_folder(path);
}

void require_writable_local_folder(const std::string& path) {
  const std::string folder = folder_of(path);
  struct stat status {};
  if (::stat(folder.c_str(), &status) != 0) throw_cannot_write(errno, path);
  if (!S_ISDIR(status.st_mode)) throw_cannot_write(ENOTDIR, path);
  if (::access(folder.c_str(), W_OK | X_OK) != 0) throw_cannot_write(errno, path);
}

void throw_cannot_write(int error_number, const std::string& path) {
  const std::string folder = folder_of(path);
  std::error_code ignored;
  const bool is_there = std::filesystem::exists(folder, ignored);
  if (error_number == ENOENT && !is_there)
    throw_error(ErrorKind::kNotFound, path,
                "cannot be written: there is no folder '{}'; make it first", folder);
  if (error_number == ENOTDIR)
    throw_error(ErrorKind::kNotFound, path, "cannot be written: '{}' is not a folder", folder);
  if (error_number == ENOENT || error_number == EACCES || error_number == EPERM ||
      error_number == EROFS)
    throw_error(ErrorKind::kIo, path,
                "cannot be written: no file can be made in '{}' ({}); check its permissions or "
                "choose another folder",
                folder, std::strerror(error_number));
  throw_errno(error_number, path, "write the file");
}

}  // namespace cellfeed::io
