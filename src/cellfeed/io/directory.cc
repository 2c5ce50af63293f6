#include "cellfeed/io/directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {

namespace fs = std::filesystem;

struct Directory::Open {
  explicit Open(const std::string& p)
      : path(p.empty() ? "." : p),
        is_working(p.empty()),
        absolute_path(fs::absolute(path).string()) {
    fd =
        retry_interrupted([&] { return ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
    if (fd < 0) throw_errno(errno, path, "open the directory");
  }
  ~Open() {
    if (fd >= 0) ::close(fd);
  }
  Open(const Open&) = delete;
  Open& operator=(const Open&) = delete;

  std::string path;           // as given, for messages
  bool is_working;            // the working directory, by no name
  std::string absolute_path;  // what it was when opened: the working directory may change
  int fd = -1;
};

Directory::Directory(const std::string& path) : open_(std::make_shared<const Open>(path)) {}

const std::string& Directory::path() const { return open_->path; }
int Directory::fd() const { return open_->fd; }

std::string Directory::path_of(std::string_view name) const {
  return open_->is_working ? std::string(name) : (fs::path(open_->path) / name).string();
}

void Directory::require_in_place() const {
  struct stat ours;
  struct stat named;
  if (::fstat(open_->fd, &ours) != 0) throw_errno(errno, open_->path, "look at the directory");
  const int status =
      retry_interrupted([&] { return ::stat(open_->absolute_path.c_str(), &named); });
  if (status != 0 && errno != ENOENT && errno != ENOTDIR)
    throw_errno(errno, open_->path, "look at the directory");
  if (status == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) return;
  throw_error(ErrorKind::kNotFound, open_->path,
              "the directory was {} by another program while it was written to; run again",
              status == 0 ? "replaced" : "removed or renamed");
}

std::vector<std::string> Directory::names() const {
  // A descriptor of its own, because reading moves its position.
  const int fd = retry_interrupted(
      [&] { return ::openat(open_->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) {
    require_in_place();
    throw_errno(errno, open_->path, "open the directory");
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
  if (!stream) {
    const int error_number = errno;
    ::close(fd);
    throw_errno(error_number, open_->path, "list the directory");
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno == EINTR) continue;
    if (entry == nullptr && errno != 0) throw_errno(errno, open_->path, "list the directory");
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::int64_t> Directory::file_bytes(const std::string& name) const {
  struct stat status;
  if (retry_interrupted(
          [&] { return ::fstatat(open_->fd, name.c_str(), &status, AT_SYMLINK_NOFOLLOW); }) == 0)
    return S_ISREG(status.st_mode) ? std::optional<std::int64_t>(status.st_size) : std::nullopt;
  if (errno == ENOENT) return std::nullopt;
  throw_errno(errno, path_of(name), "look at the file");
}

bool Directory::is_named(int file, const std::string& name) const {
  struct stat ours;
  struct stat named;
  return ::fstat(file, &ours) == 0 &&
         ::fstatat(open_->fd, name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

void Directory::remove(const std::string& name) const {
  if (retry_interrupted([&] { return ::unlinkat(open_->fd, name.c_str(), 0); }) != 0 &&
      errno != ENOENT)
    throw_errno(errno, path_of(name), "remove the file");
}

void Directory::sync() const {
  // Some network file systems have no such call: there a rename is as durable as it gets.
  if (retry_interrupted([&] { return ::fsync(open_->fd); }) != 0 && errno != EINVAL)
    throw_errno(errno, open_->path, "sync the directory");
}

void make_directories(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path own = whole.has_filename() ? whole : whole.parent_path();
  const std::string parent = own.parent_path().string();
  make_directories(parent);
  if (retry_interrupted([&] { return ::mkdir(own.c_str(), 0777); }) != 0) {
    if (errno != EEXIST) throw_errno(errno, path, "make the directory");
    if (!fs::is_directory(own, error))
      throw_error(ErrorKind::kAlreadyExists, path, "is a file where a directory is to be made");
  }
  Directory(parent).sync();
}

}  // namespace cellfeed::io
