#include "cellfeed/io/descriptor.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <mutex>
#include <system_error>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/io/system_call.h"

namespace cellfeed::io {

// Those that are open. A clock: whoever was not used since the hand came by last gives his up.
class OpenDescriptors {
 public:
  ForkSafeMutex mutex;  // to be held for all below

  void add(const Descriptor& one) {
    one.place_ = open_.size();
    open_.push_back(&one);
  }
  void remove(const Descriptor& one) {
    open_[one.place_] = open_.back();
    open_[one.place_]->place_ = one.place_;
    open_.pop_back();
  }
  std::size_t size() const { return open_.size(); }
  // False where all are in use.
  bool close_one() {
    for (std::size_t looked = 0; looked < 2 * open_.size(); ++looked) {
      hand_ = hand_ + 1 < open_.size() ? hand_ + 1 : 0;
      const Descriptor& one = *open_[hand_];
      int users = 0;
      if (one.was_used_.exchange(false, std::memory_order_relaxed) ||
          !one.users_.compare_exchange_strong(users, Descriptor::kClosed,
                                              std::memory_order_acquire))
        continue;
      remove(one);
      ::close(one.fd_);
      return true;
    }
    return false;
  }

 private:
  std::vector<const Descriptor*> open_;
  std::size_t hand_ = 0;
};

namespace {

// Files may be closed while the process ends.
OpenDescriptors& all() {
  static auto* descriptors = new OpenDescriptors;
  return *descriptors;
}

// It is there for programs that use select().
bool raise_file_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= limit.rlim_max) return false;
  limit.rlim_cur = limit.rlim_max;
  return ::setrlimit(RLIMIT_NOFILE, &limit) == 0;
}

// REQUIRES: the lock is held.
bool find_room() { return raise_file_limit() || all().close_one(); }

// Half of the descriptors are left to the rest of the process.
void keep_room_for_others(int fd) {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  const rlim_t half = limit.rlim_cur / 2;
  if (static_cast<rlim_t>(fd) < half && all().size() < half) return;
  if (raise_file_limit()) return;
  while (all().size() >= half && all().close_one()) {
  }
}

// For when it is opened again, wherever the process has gone by then.
std::string absolute_path(const std::string& path) {
  std::error_code error;
  const std::filesystem::path found = std::filesystem::absolute(path, error);
  return error ? path : found.string();
}

// REQUIRES: the lock is held.
int open_descriptor(const std::string& path, int flags) {
  const auto open = [&] { return retry_interrupted([&] { return ::open(path.c_str(), flags); }); };
  int fd = open();
  while (fd < 0 && errno == EMFILE && find_room()) fd = open();
  if (fd >= 0) keep_room_for_others(fd);
  return fd;
}

[[noreturn]] void throw_irregular(const std::string& path) {
  throw_error(ErrorKind::kIo, path, "is not a regular file; copy its contents to one");
}

[[noreturn]] void throw_not_opened(int error_number, const std::string& path, bool direct) {
  if (error_number == ENXIO) throw_irregular(path);
  if (direct && error_number == EINVAL)
    throw_error(ErrorKind::kUnsupported, path,
                "the file system cannot read past the page cache; open it without direct");
  throw_errno(error_number, path, "open the file for reading");
}

}  // namespace

bool make_room_for_file() {
  const std::lock_guard lock(all().mutex);
  return find_room();
}

// O_NONBLOCK: a pipe without a writer would block in open; regular files do not know it.
Descriptor::Descriptor(const std::string& path, bool direct)
    : path_(absolute_path(path)),
      flags_(O_RDONLY | O_CLOEXEC | O_NONBLOCK | (direct ? O_DIRECT : 0)) {
  require_path(path);
  const std::lock_guard lock(all().mutex);
  fd_ = open_descriptor(path_, flags_);
  if (fd_ < 0) throw_not_opened(errno, path, direct);
  struct stat status {};
  try {
    if (::fstat(fd_, &status) != 0) throw_errno(errno, path, "get the size of the file");
    if (S_ISDIR(status.st_mode))
      throw_error(ErrorKind::kIo, path, "is a directory where a file is needed");
    if (!S_ISREG(status.st_mode)) throw_irregular(path);
  } catch (const Error&) {
    ::close(fd_);
    throw;
  }
  device_ = status.st_dev;
  inode_ = status.st_ino;
  all().add(*this);
}

Descriptor::~Descriptor() {
  const std::lock_guard lock(all().mutex);
  if (users_.load() == kClosed) return;
  all().remove(*this);
  ::close(fd_);
}

int Descriptor::take() const { return take_open() ? fd_ : open_again(); }

bool Descriptor::take_open() const {
  int users = users_.load(std::memory_order_relaxed);
  while (users != kClosed)
    if (users_.compare_exchange_weak(users, users + 1, std::memory_order_acquire)) {
      if (!was_used_.load(std::memory_order_relaxed))
        was_used_.store(true, std::memory_order_relaxed);
      return true;
    }
  return false;
}

int Descriptor::open_again() const {
  const std::lock_guard lock(all().mutex);
  if (take_open()) return fd_;  // another thread was faster
  const int fd = open_descriptor(path_, flags_);
  if (fd < 0) {
    if (errno == ENOENT || errno == ENOTDIR) return -1;
    throw_errno(errno, path_, "open the file again");
  }
  struct stat status {};
  if (::fstat(fd, &status) != 0 || status.st_dev != device_ || status.st_ino != inode_) {
    ::close(fd);
    return -1;
  }
  fd_ = fd;
  was_used_.store(true, std::memory_order_relaxed);
  all().add(*this);
  users_.store(1, std::memory_order_release);
  return fd_;
}

}  // namespace cellfeed::io
