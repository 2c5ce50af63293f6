// The lock of a local directory: flock on a file that is removed while it is still locked, so that
// none is left behind; an exclusive file where there is no flock.
#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <string>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/lock_holder.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {
namespace {

constexpr int kNoLocks = -2;

LockHolder read_holder(int fd) {
  std::array<char, 300> bytes{};
  const ssize_t got = retry_interrupted([&] { return ::pread(fd, bytes.data(), bytes.size(), 0); });
  return LockHolder::parse({bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0});
}

void write_holder(int fd, const std::string& path) {
  struct stat status {};
  if (::fstat(fd, &status) == 0 && status.st_size > 0 && read_holder(fd).process <= 0)
    throw_error(ErrorKind::kAlreadyExists, path,
                "is no lock of cellfeed, and stays as it is; move it away");
  const std::string text = LockHolder::this_process().line();
  if (retry_interrupted([&] { return ::ftruncate(fd, 0); }) != 0 ||
      retry_interrupted([&] { return ::pwrite(fd, text.data(), text.size(), 0); }) < 0)
    throw_errno(errno, path, "write to the lock file");
}

int open_lock(const Directory& directory, const std::string& name, int flags) {
  const int fd = retry_interrupted([&] {
    return ::openat(directory.fd(), name.c_str(),
                    O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK | flags, 0666);
  });
  if (fd < 0 && !(errno == EEXIST && (flags & O_EXCL) != 0)) {
    const int error_number = errno;
    if (error_number == ENOENT) directory.require_in_place();
    throw_errno(error_number, directory.path_of(name), "open the lock file");
  }
  return fd;
}

// A locked descriptor, -1 to try again, or kNoLocks.
int try_flock(const Directory& directory, const std::string& name) {
  const int fd = open_lock(directory, name, 0);
  try {
    if (retry_interrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) != 0) {
      if (errno == ENOLCK || errno == ENOSYS || errno == EOPNOTSUPP || errno == EINVAL) {
        directory.remove(name);
        ::close(fd);
        return kNoLocks;
      }
      if (errno != EWOULDBLOCK) throw_errno(errno, directory.path_of(name), "lock the directory");
      throw_error(ErrorKind::kAlreadyExists, directory.path_of(name),
                  "the directory is being written by {}; wait for it to end, or end it",
                  read_holder(fd).describe());
    }
    // The holder before us may have removed the file that we locked.
    if (is_named(directory, fd, name)) {
      write_holder(fd, directory.path_of(name));
      return fd;
    }
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  return -1;
}

int take_exclusive_file(const Directory& directory, const std::string& name) {
  const int fd = open_lock(directory, name, O_EXCL);
  if (fd >= 0) {
    try {
      write_holder(fd, directory.path_of(name));
    } catch (...) {
      ::close(fd);
      directory.remove(name);
      throw;
    }
    return fd;
  }
  const int holder_fd = open_lock(directory, name, 0);
  const LockHolder holder = read_holder(holder_fd);
  ::close(holder_fd);
  if (holder.is_dead())
    throw_error(ErrorKind::kIo, directory.path_of(name),
                "left behind by {}, which has ended, on a file system without locks that would "
                "say so; remove this file and run again",
                holder.describe());
  throw_error(ErrorKind::kAlreadyExists, directory.path_of(name),
              "the directory is being written by {}; wait for it to end. This file system has no "
              "locks: if that process was killed, remove this file",
              holder.describe());
}

class LocalLock final : public HeldLock {
 public:
  LocalLock(Directory directory, std::string name)
      : directory_(std::move(directory)),
        name_(std::move(name)),
        fork_generation_(exec::fork_generation()) {
    while (fd_ == -1) fd_ = try_flock(directory_, name_);
    if (fd_ != kNoLocks) return;
    name_ += DirectoryLock::kHeldSuffix;
    fd_ = take_exclusive_file(directory_, name_);
  }
  ~LocalLock() override {
    if (fork_generation_ == exec::fork_generation()) ::unlinkat(directory_.fd(), name_.c_str(), 0);
    ::close(fd_);
  }
  LocalLock(const LocalLock&) = delete;
  LocalLock& operator=(const LocalLock&) = delete;

  void show_life() const override { ::futimens(fd_, nullptr); }

 private:
  const Directory directory_;
  std::string name_;
  const std::uint64_t fork_generation_;
  int fd_ = -1;
};

}  // namespace

std::unique_ptr<HeldLock> lock_local_directory(Directory directory, const std::string& name) {
  return std::make_unique<LocalLock>(std::move(directory), name);
}

}  // namespace cellfeed::io
