#include "cellfeed/series/kept_folder.h"

#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/format/shard/checksum.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::series {
namespace {

constexpr const char* kLockName = ".lock";

// Of this user alone: what lies there is believed.
std::string own_temporary_folder(const std::string& what) {
  const std::filesystem::path temporary = std::filesystem::temp_directory_path();
  const std::uint64_t hash = format::shard::checksum_bytes(std::as_bytes(std::span(what)));
  const std::string path =
      (temporary / fmt::format("cellfeed-series-{}-{:016x}", ::geteuid(), hash)).string();
  if (::mkdir(path.c_str(), 0700) != 0 && errno != EEXIST)
    throw_errno(errno, path, "make this folder (TMPDIR names another place)");
  struct stat status;
  if (::lstat(path.c_str(), &status) != 0) throw_errno(errno, path, "look at this folder");
  if (!S_ISDIR(status.st_mode) || status.st_uid != ::geteuid() || (status.st_mode & 077) != 0)
    throw Error(ErrorKind::kIo,
                "is no folder of this user alone, and what lies there could be of another: remove "
                "it, or have TMPDIR name another place",
                path);
  return path;
}

}  // namespace

KeptFolder::KeptFolder(const io::Directory& directory, const std::string& name,
                       const std::string& what) {
  if (directory.is_local()) {
    const std::string path = directory.path_of(name);
    io::make_directories(path);
    folder_ = io::Directory(path);
    return;
  }
  folder_ = io::Directory(own_temporary_folder(what));
  lock_ = std::make_unique<io::DirectoryLock>(folder_, kLockName);
}

void KeptFolder::empty(const std::string& but) const {
  for (const std::string& name : folder_.names())
    if (name != but && !name.starts_with(kLockName)) folder_.remove(name);
}

void KeptFolder::remove() {
  empty();
  lock_.reset();
  io::remove_all(folder_.path());
}

}  // namespace cellfeed::series
