// DirectoryLock: flock on a file that is removed while it is still locked, so that none is left
// behind.
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

namespace cellfeed::io {
namespace {

// The first line of the lock file; the holder writes it right after locking.
std::string read_holder(int fd) {
  std::array<char, 32> text{};
  const ssize_t got = ::pread(fd, text.data(), text.size(), 0);
  std::string holder(text.data(), got > 0 ? static_cast<std::size_t>(got) : 0);
  holder.resize(std::min(holder.size(), holder.find('\n')));
  const bool is_number =
      !holder.empty() && holder.find_first_not_of("0123456789") == std::string::npos;
  return is_number ? "process " + holder : "another process";
}

// False when the holder before us has removed the file that we locked.
bool still_has_name(int fd, const std::string& path) {
  struct stat ours;
  struct stat named;
  return ::fstat(fd, &ours) == 0 && ::stat(path.c_str(), &named) == 0 &&
         ours.st_ino == named.st_ino && ours.st_dev == named.st_dev;
}

void write_holder(int fd, const std::string& path) {
  const std::string text = fmt::format("{}\n", ::getpid());
  if (::ftruncate(fd, 0) != 0 || ::pwrite(fd, text.data(), text.size(), 0) < 0) {
    throw_errno(errno, path, "write to the lock file");
  }
}

// A locked descriptor, or -1 to try again.
int try_lock(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0666);
  if (fd < 0) throw_errno(errno, path, "open the lock file");
  try {
    if (::flock(fd, LOCK_EX | LOCK_NB) != 0) {
      if (errno != EWOULDBLOCK) throw_errno(errno, path, "lock the directory");
      throw_error(ErrorKind::kAlreadyExists, path,
                  "the directory is being written by {}; wait for it to end, or end it",
                  read_holder(fd));
    }
    if (still_has_name(fd, path)) {
      write_holder(fd, path);
      return fd;
    }
  } catch (...) {
    ::close(fd);
    throw;
  }
  ::close(fd);
  return -1;
}

}  // namespace

DirectoryLock::DirectoryLock(const std::string& directory, std::string_view lock_name)
    : lock_path_(directory + "/" + std::string(lock_name)),
      fork_generation_(exec::fork_generation()) {
  while (fd_ < 0) fd_ = try_lock(lock_path_);
}

DirectoryLock::~DirectoryLock() {
  if (fork_generation_ == exec::fork_generation()) ::unlink(lock_path_.c_str());
  ::close(fd_);
}

}  // namespace cellfeed::io
