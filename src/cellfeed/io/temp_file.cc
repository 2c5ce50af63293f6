#include "cellfeed/io/temp_file.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/local_directory.h"
#include "cellfeed/io/system_call.h"
#include "cellfeed/io/write_target.h"

namespace cellfeed::io {
namespace {

constexpr std::string_view kTempMark = ".tmp-";

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

[[noreturn]] void throw_exists(const std::string& path) {
  throw_error(ErrorKind::kAlreadyExists, path,
              "the target exists and is not replaced; remove it or choose another");
}

// A hard link never replaces; for file systems without RENAME_NOREPLACE.
void link_into_place(const Directory& directory, const std::string& temp_name,
                     const std::string& name) {
  if (retry_interrupted([&] {
        return ::linkat(directory.fd(), temp_name.c_str(), directory.fd(), name.c_str(), 0);
      }) != 0) {
    if (errno == EEXIST) throw_exists(directory.path_of(name));
    throw_errno(errno, directory.path_of(name), "give the finished file its name");
  }
  directory.remove(temp_name);
}

void rename_into_place(const Directory& directory, const std::string& temp_name,
                       const std::string& name, OnExisting on_existing) {
  const unsigned flags = on_existing == OnExisting::kReplace ? 0 : RENAME_NOREPLACE;
  const int status = retry_interrupted([&] {
    return ::renameat2(directory.fd(), temp_name.c_str(), directory.fd(), name.c_str(), flags);
  });
  if (status == 0) return;
  if (flags != 0 && (errno == EINVAL || errno == ENOSYS))
    return link_into_place(directory, temp_name, name);
  const int error_number = errno;
  if (error_number == EEXIST) throw_exists(directory.path_of(name));
  if (error_number == ENOENT) directory.require_in_place();
  throw_errno(error_number, directory.path_of(name), "give the finished file its name");
}

std::string checked_folder(const std::string& path) {
  require_path(path);
  return std::filesystem::path(path).parent_path().string();
}

}  // namespace

FileTarget::FileTarget(const std::string& path)
    : directory_(checked_folder(path)), name_(std::filesystem::path(path).filename().string()) {
  if (name_.empty() || name_ == "." || name_ == "..")
    throw_error(ErrorKind::kAlreadyExists, path, "is a directory where a file is to be written");
}

std::string make_temp_path(const std::string& path) {
  std::random_device random;
  return fmt::format("{}{}{}-{:08x}{:08x}", path, kTempMark, ::getpid(), random(), random());
}

bool is_temp_name(std::string_view file_name) {
  const auto mark = file_name.rfind(kTempMark);
  if (mark == std::string_view::npos || mark == 0) return false;
  const std::string_view tail = file_name.substr(mark + kTempMark.size());
  const auto dash = tail.find('-');
  return dash != std::string_view::npos && all_of(tail.substr(0, dash), "0123456789") &&
         tail.size() - dash - 1 == 16 && all_of(tail.substr(dash + 1), "0123456789abcdef");
}

void remove_leftovers(const FileTarget& target) {
  (*target.directory()).remove_leftovers(target.name() + std::string(kTempMark));
}

void remove_leftovers_in(const Directory& directory) { (*directory).remove_leftovers(""); }

TempFile::TempFile(FileTarget target, OnExisting on_existing)
    : target_(std::move(target)),
      on_existing_(on_existing),
      path_(target_.path()),
      fork_generation_(exec::fork_generation()) {
  struct stat status;
  const bool exists = ::fstatat(target_.directory().fd(), target_.name().c_str(), &status,
                                AT_SYMLINK_NOFOLLOW) == 0;
  if (exists && S_ISDIR(status.st_mode))
    throw_error(ErrorKind::kAlreadyExists, path_, "is a directory where a file is to be written");
  if (exists && on_existing == OnExisting::kRefuse) throw_exists(path_);
  create();
}

TempFile::TempFile(FileTarget target, std::string temp_name, int fd)
    : target_(std::move(target)),
      on_existing_(OnExisting::kReplace),
      path_(target_.path()),
      temp_path_(target_.directory().path_of(temp_name)),
      temp_name_(std::move(temp_name)),
      fork_generation_(exec::fork_generation()),
      fd_(fd),
      has_temp_name_(true) {}

std::unique_ptr<TempFile> TempFile::take_over(const FileTarget& target) {
  const Directory& directory = target.directory();
  std::unique_ptr<TempFile> longest;
  for (const std::string& name : directory.names()) {
    if (!name.starts_with(target.name() + std::string(kTempMark)) || !is_temp_name(name)) continue;
    const int fd = retry_interrupted([&] {
      return ::openat(directory.fd(), name.c_str(), O_RDWR | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
    });
    if (fd < 0) continue;  // gone meanwhile, or somebody else's
    const bool is_dead = retry_interrupted([&] { return ::flock(fd, LOCK_EX | LOCK_NB); }) == 0 &&
                         is_named(directory, fd, name);
    if (!is_dead) {
      ::close(fd);
      continue;
    }
    std::unique_ptr<TempFile> found(new TempFile(target, name, fd));
    if (!longest || found->size() > longest->size()) std::swap(longest, found);
  }
  return longest;
}

void TempFile::create() {
  const Directory& directory = target_.directory();
  while (true) {
    temp_name_ = make_temp_path(target_.name());
    temp_path_ = directory.path_of(temp_name_);
    fd_ = retry_interrupted([&] {
      return ::openat(directory.fd(), temp_name_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC,
                      (*directory).file_mode());
    });
    if (fd_ < 0) {
      const int error_number = errno;
      if (error_number == EEXIST) continue;
      if (error_number == ENOENT) directory.require_in_place();
      throw_cannot_write(error_number, path_);
    }
    // Where there are no locks, nobody can take this file for a dead writer's either.
    const bool is_taken =
        retry_interrupted([&] { return ::flock(fd_, LOCK_EX | LOCK_NB); }) != 0 &&
        errno == EWOULDBLOCK;  // by one who takes us for dead, and removes the name
    // Or has lost its name to one.
    has_temp_name_ = !is_taken && is_named(directory, fd_, temp_name_);
    if (has_temp_name_) return;
    ::close(std::exchange(fd_, -1));
    directory.require_in_place();
  }
}

bool TempFile::is_open() const {
  return fd_ >= 0 && !is_published_ && fork_generation_ == exec::fork_generation();
}

TempFile::~TempFile() {
  if (has_temp_name_ && !is_left_ && fork_generation_ == exec::fork_generation())
    ::unlinkat(target_.directory().fd(), temp_name_.c_str(), 0);
  if (fd_ >= 0) ::close(fd_);
}

void TempFile::write(std::int64_t offset, std::span<const std::byte> bytes) {
  if (!write_whole(fd_, bytes, offset))
    throw_errno(errno, path_, fmt::format("write {} bytes at offset {}", bytes.size(), offset));
}

std::int64_t TempFile::size() const {
  struct stat status;
  if (::fstat(fd_, &status) != 0) throw_errno(errno, path_, "look at the file");
  return S_ISREG(status.st_mode) ? status.st_size : 0;
}

void TempFile::truncate(std::int64_t bytes) {
  if (retry_interrupted([&] { return ::ftruncate(fd_, bytes); }) != 0)
    throw_errno(errno, path_, "truncate the file");
}

void TempFile::remove_name() {
  target_.directory().remove(temp_name_);
  has_temp_name_ = false;
}

void TempFile::publish() {
  if (!is_open())
    throw_error(ErrorKind::kInternal, path_,
                "cannot publish: the file has its name already, or belongs to the parent process");
  if (retry_interrupted([&] { return ::fsync(fd_); }) != 0)
    throw_errno(errno, path_, "sync the file");
  rename_into_place(target_.directory(), temp_name_, target_.name(), on_existing_);
  has_temp_name_ = false;
  is_published_ = true;
  target_.directory().sync();
  target_.directory().require_in_place();
}

}  // namespace cellfeed::io
