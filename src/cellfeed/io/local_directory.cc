#include "cellfeed/io/local_directory.h"

#include <dirent.h>
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/io/system_call.h"
#include "cellfeed/io/temp_file.h"

namespace cellfeed::io {
namespace {

namespace fs = std::filesystem;

class LocalJournal final : public Journal {
 public:
  LocalJournal(const Directory& directory, const std::string& name)
      : path_(directory.path_of(name)), fd_(retry_interrupted([&] {
          return ::openat(directory.fd(), name.c_str(),
                          O_WRONLY | O_APPEND | O_NOFOLLOW | O_CLOEXEC);
        })) {
    if (fd_ < 0) throw_errno(errno, path_, "open");
  }
  ~LocalJournal() override { ::close(fd_); }
  LocalJournal(const LocalJournal&) = delete;
  LocalJournal& operator=(const LocalJournal&) = delete;

  void append(std::string_view text) override {
    while (!text.empty()) {
      const auto n = retry_interrupted([&] { return ::write(fd_, text.data(), text.size()); });
      if (n < 0) throw_errno(errno, path_, "write");
      text.remove_prefix(static_cast<std::size_t>(n));
    }
    if (retry_interrupted([&] { return ::fdatasync(fd_); }) != 0) throw_errno(errno, path_, "sync");
  }

 private:
  const std::string path_;
  const int fd_;
};

}  // namespace

LocalDirectory::LocalDirectory(const std::string& path)
    : path_(path.empty() ? "." : path),
      is_working_(path.empty()),
      absolute_path_(fs::absolute(path_).string()),
      fd_(retry_interrupted(
          [&] { return ::open(path_.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); })) {
  if (fd_ < 0) throw_errno(errno, path_, "open the directory");
}

LocalDirectory::LocalDirectory(int fd, const std::string& path)
    : path_(path),
      is_working_(false),
      absolute_path_(fs::absolute(path).string()),
      file_mode_(0644),
      fd_(fd) {}

LocalDirectory::~LocalDirectory() { ::close(fd_); }

std::string LocalDirectory::path_of(std::string_view name) const {
  return is_working_ ? std::string(name) : (fs::path(path_) / name).string();
}

void LocalDirectory::require_in_place() const {
  struct stat ours;
  struct stat named;
  if (::fstat(fd_, &ours) != 0) throw_errno(errno, path_, "look at the directory");
  const int status = retry_interrupted([&] { return ::stat(absolute_path_.c_str(), &named); });
  if (status != 0 && errno != ENOENT && errno != ENOTDIR)
    throw_errno(errno, path_, "look at the directory");
  if (status == 0 && ours.st_ino == named.st_ino && ours.st_dev == named.st_dev) return;
  throw_error(ErrorKind::kNotFound, path_,
              "the directory was {} by another program while it was written to; run again",
              status == 0 ? "replaced" : "removed or renamed");
}

std::vector<std::string> LocalDirectory::names() const {
  // A descriptor of its own, because reading moves its position.
  const int fd =
      retry_interrupted([&] { return ::openat(fd_, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC); });
  if (fd < 0) {
    require_in_place();
    throw_errno(errno, path_, "open the directory");
  }
  const std::unique_ptr<DIR, int (*)(DIR*)> stream(::fdopendir(fd), ::closedir);
  if (!stream) {
    const int error_number = errno;
    ::close(fd);
    throw_errno(error_number, path_, "list the directory");
  }
  std::vector<std::string> names;
  while (true) {
    errno = 0;
    const dirent* entry = ::readdir(stream.get());
    if (entry == nullptr && errno == EINTR) continue;
    if (entry == nullptr && errno != 0) throw_errno(errno, path_, "list the directory");
    if (entry == nullptr) break;
    const std::string_view name = entry->d_name;
    if (name != "." && name != "..") names.emplace_back(name);
  }
  std::sort(names.begin(), names.end());
  return names;
}

std::optional<std::int64_t> LocalDirectory::file_bytes(const std::string& name) const {
  struct stat status;
  if (retry_interrupted(
          [&] { return ::fstatat(fd_, name.c_str(), &status, AT_SYMLINK_NOFOLLOW); }) == 0)
    return S_ISREG(status.st_mode) ? std::optional<std::int64_t>(status.st_size) : std::nullopt;
  if (errno == ENOENT) return std::nullopt;
  throw_errno(errno, path_of(name), "look at the file");
}

void LocalDirectory::remove(const std::string& name) const {
  if (retry_interrupted([&] { return ::unlinkat(fd_, name.c_str(), 0); }) != 0 && errno != ENOENT)
    throw_errno(errno, path_of(name), "remove the file");
}

void LocalDirectory::sync() const {
  // Some network file systems have no such call: there a rename is as durable as it gets.
  if (retry_interrupted([&] { return ::fsync(fd_); }) != 0 && errno != EINVAL)
    throw_errno(errno, path_, "sync the directory");
}

std::unique_ptr<NewFile> LocalDirectory::create(const std::string& name,
                                                OnExisting on_existing) const {
  return std::make_unique<TempFile>(FileTarget(Directory(shared_from_this()), name), on_existing);
}

std::unique_ptr<Journal> LocalDirectory::append_to(const std::string& name) const {
  return std::make_unique<LocalJournal>(Directory(shared_from_this()), name);
}

std::unique_ptr<HeldLock> LocalDirectory::lock(const std::string& name) const {
  return lock_local_directory(Directory(shared_from_this()), name);
}

void LocalDirectory::remove_leftovers(std::string_view prefix) const {
  for (const std::string& name : names()) {
    if (!name.starts_with(prefix) || !is_temp_name(name) || !file_bytes(name)) continue;
    const int fd = retry_interrupted(
        [&] { return ::openat(fd_, name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC); });
    if (fd < 0) continue;  // gone meanwhile, or somebody else's
    const bool is_dead = ::flock(fd, LOCK_EX | LOCK_NB) == 0;
    try {
      if (is_dead) remove(name);
    } catch (...) {
      ::close(fd);
      throw;
    }
    ::close(fd);
  }
}

bool is_named(const Directory& directory, int file, const std::string& name) {
  struct stat ours;
  struct stat named;
  return ::fstat(file, &ours) == 0 &&
         ::fstatat(directory.fd(), name.c_str(), &named, AT_SYMLINK_NOFOLLOW) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

void make_local_directories(const std::string& path) {
  std::error_code error;
  if (path.empty() || fs::is_directory(path, error)) return;
  const fs::path whole = fs::path(path).lexically_normal();
  const fs::path own = whole.has_filename() ? whole : whole.parent_path();
  const std::string parent = own.parent_path().string();
  make_local_directories(parent);
  if (retry_interrupted([&] { return ::mkdir(own.c_str(), 0777); }) != 0) {
    if (errno != EEXIST) throw_errno(errno, path, "make the directory");
    if (!fs::is_directory(own, error))
      throw_error(ErrorKind::kAlreadyExists, path, "is a file where a directory is to be made");
  }
  LocalDirectory(parent).sync();
}

}  // namespace cellfeed::io
