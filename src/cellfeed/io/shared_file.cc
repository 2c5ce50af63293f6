#include "cellfeed/io/shared_file.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "cellfeed/base/error.h"
#include "cellfeed/io/descriptor.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {
namespace {

constexpr int kLockTries = 100;
constexpr std::chrono::milliseconds kLockWait{10};
constexpr std::int64_t kDiskUnit = 512;  // of st_blocks

int open_shared(const Directory& directory, const std::string& name, int access) {
  const auto open = [&] {
    return retry_interrupted([&] {
      return ::openat(directory.fd(), name.c_str(), access | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
    });
  };
  int fd = open();
  while (fd < 0 && errno == EMFILE && make_room_for_file()) fd = open();
  return fd;
}

bool lock_now(int fd, int how) {
  return retry_interrupted([&] { return ::flock(fd, how | LOCK_NB); }) == 0;
}

// Others hold it alone for the moment in which they make or remove the file.
void lock_shared(int fd) {
  for (int i = 0; i < kLockTries && !lock_now(fd, LOCK_SH) && errno == EWOULDBLOCK; ++i)
    std::this_thread::sleep_for(kLockWait);
}

struct stat status_of_file(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) != 0) throw_errno(errno, path, "look at the file");
  return status;
}

}  // namespace

std::unique_ptr<SharedFile> SharedFile::open(const Directory& directory, const std::string& name) {
  const std::string path = directory.path_of(name);
  while (true) {
    bool is_writable = true;
    int fd = open_shared(directory, name, O_RDWR);
    if (fd < 0 && (errno == EACCES || errno == EROFS || errno == EPERM)) {
      is_writable = false;
      fd = open_shared(directory, name, O_RDONLY);
    }
    if (fd < 0) {
      if (errno == ENOENT) return nullptr;
      throw_errno(errno, path, "open the file");
    }
    std::unique_ptr<SharedFile> file(new SharedFile(path, fd, is_writable));
    const struct stat status = status_of_file(fd, path);
    if (!S_ISREG(status.st_mode))
      throw_error(ErrorKind::kIo, path, "is not a regular file: remove it");
    lock_shared(fd);
    // Or it was removed before it was locked.
    if (!is_named(directory, fd, name)) continue;
    file->size_ = status.st_size;
    return file;
  }
}

void SharedFile::make(const FileTarget& target, OnExisting on_existing,
                      std::span<const std::byte> head, std::int64_t bytes) {
  TempFile file(target, on_existing);
  file.write(0, head);
  file.truncate(bytes);
  file.publish();
}

bool SharedFile::remove_unless_open(const Directory& directory, const std::string& name) {
  const int fd = open_shared(directory, name, O_RDONLY);
  if (fd < 0) {
    if (errno == ENOENT) return true;
    throw_errno(errno, directory.path_of(name), "open the file");
  }
  const bool is_in_use = !lock_now(fd, LOCK_EX) && errno == EWOULDBLOCK;
  try {
    if (!is_in_use && is_named(directory, fd, name)) directory.remove(name);
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  return !is_in_use;
}

SharedFile::SharedFile(std::string path, int fd, bool is_writable)
    : path_(std::move(path)), fd_(fd), is_writable_(is_writable) {}

SharedFile::~SharedFile() { ::close(fd_); }

// A file system that does not count says 0: then as if there were no holes.
std::int64_t SharedFile::disk_bytes() const {
  const struct stat status = status_of_file(fd_, path_);
  const std::int64_t counted = status.st_blocks * kDiskUnit;
  return counted == 0 ? status.st_size : counted;
}

std::int64_t SharedFile::modified_ns() const {
  const struct stat status = status_of_file(fd_, path_);
  return nanoseconds(status.st_mtim);
}

bool SharedFile::has_name() const { return status_of_file(fd_, path_).st_nlink > 0; }

bool SharedFile::is_same(const SharedFile& other) const {
  const struct stat ours = status_of_file(fd_, path_);
  const struct stat theirs = status_of_file(other.fd_, other.path_);
  return ours.st_dev == theirs.st_dev && ours.st_ino == theirs.st_ino;
}

bool SharedFile::read(std::int64_t offset, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got =
        retry_interrupted([&] { return ::pread(fd_, out.data(), out.size(), offset); });
    if (got <= 0) return false;
    out = out.subspan(static_cast<std::size_t>(got));
    offset += got;
  }
  return true;
}

// A file that was cut would grow again, with zeros where others believe to have written.
void SharedFile::write(std::int64_t offset, std::span<const std::byte> bytes) const {
  if (status_of_file(fd_, path_).st_size != size_)
    throw_error(ErrorKind::kIo, path_, "its length was changed while it is open");
  const std::int64_t begin = offset;
  const auto length = static_cast<std::int64_t>(bytes.size());
  if (!write_whole(fd_, bytes, offset))
    throw_errno(errno, path_, fmt::format("write {} bytes at offset {}", bytes.size(), offset));
  (void)::sync_file_range(fd_, begin, length, SYNC_FILE_RANGE_WRITE);  // a hint
}

void SharedFile::sync() const {
  if (retry_interrupted([&] { return ::fdatasync(fd_); }) != 0)
    throw_errno(errno, path_, "sync the file");
}

void SharedFile::note_use() const { (void)::futimens(fd_, nullptr); }

}  // namespace cellfeed::io
