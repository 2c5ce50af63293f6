#include "cellfeed/io/atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <random>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::io {
namespace {

constexpr std::string_view kTempMark = ".tmp-";

std::string parent_of(const std::string& path) {
  const std::string parent = std::filesystem::path(path).parent_path().string();
  return parent.empty() ? "." : parent;
}

bool all_of(std::string_view text, std::string_view allowed) {
  return !text.empty() && text.find_first_not_of(allowed) == std::string_view::npos;
}

[[noreturn]] void throw_exists(const std::string& path) {
  throw_error(ErrorKind::kAlreadyExists, path,
              "the target exists and is not replaced; remove it or choose another");
}

void sync_file(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) throw_errno(errno, path, "open the finished file");
  const int status = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  if (status != 0) throw_errno(error_number, path, "sync the file");
}

// A hard link never replaces; for file systems without RENAME_NOREPLACE.
void link_into_place(const std::string& temp_path, const std::string& path) {
  if (::link(temp_path.c_str(), path.c_str()) != 0) {
    if (errno == EEXIST) throw_exists(path);
    throw_errno(errno, path, "give the finished file its name");
  }
  if (::unlink(temp_path.c_str()) != 0) throw_errno(errno, temp_path, "remove the temporary name");
}

void rename_into_place(const std::string& temp_path, const std::string& path,
                       OnExisting on_existing) {
  const unsigned flags = on_existing == OnExisting::kReplace ? 0 : RENAME_NOREPLACE;
  if (::renameat2(AT_FDCWD, temp_path.c_str(), AT_FDCWD, path.c_str(), flags) == 0) return;
  if (flags != 0 && (errno == EINVAL || errno == ENOSYS)) return link_into_place(temp_path, path);
  if (errno == EEXIST) throw_exists(path);
  throw_errno(errno, path, "give the finished file its name");
}

}  // namespace

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

void fsync_directory(const std::string& directory) {
  const int fd = ::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) throw_errno(errno, directory, "open the directory");
  const int status = ::fsync(fd);
  const int error_number = errno;
  ::close(fd);
  // Some network file systems have no such call: there a rename is as durable as it gets.
  if (status != 0 && error_number != EINVAL) {
    throw_errno(error_number, directory, "sync the directory");
  }
}

void publish_file(const std::string& temp_path, const std::string& path, OnExisting on_existing) {
  sync_file(temp_path);
  rename_into_place(temp_path, path, on_existing);
  fsync_directory(parent_of(path));
}

AtomicFile::AtomicFile(std::string path, OnExisting on_existing, std::size_t buffer_bytes)
    : path_(std::move(path)),
      temp_path_(make_temp_path(path_)),
      on_existing_(on_existing),
      fork_generation_(exec::fork_generation()),
      capacity_(std::max<std::size_t>(buffer_bytes, 1)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(capacity_)) {
  struct stat status;
  const bool exists = ::lstat(path_.c_str(), &status) == 0;
  if (exists && S_ISDIR(status.st_mode)) {
    throw_error(ErrorKind::kAlreadyExists, path_, "is a directory where a file is to be written");
  }
  if (exists && on_existing == OnExisting::kRefuse) throw_exists(path_);
  fd_ = ::open(temp_path_.c_str(), O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
  if (fd_ < 0) throw_errno(errno, path_, "make a file in the target's directory");
}

AtomicFile::~AtomicFile() {
  if (fd_ >= 0) ::close(fd_);
  if (!committed_ && fork_generation_ == exec::fork_generation()) ::unlink(temp_path_.c_str());
}

void AtomicFile::require_open(std::string_view operation) const {
  if (committed_ || fd_ < 0 || fork_generation_ != exec::fork_generation()) {
    throw_error(ErrorKind::kInternal, path_,
                "cannot {}: the file is committed, or belongs to the parent process", operation);
  }
}

void AtomicFile::write_fully(std::int64_t offset, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::pwrite(fd_, bytes.data(), bytes.size(), offset);
    if (written < 0) {
      if (errno == EINTR) continue;
      throw_errno(errno, path_, fmt::format("write {} bytes at offset {}", bytes.size(), offset));
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
    offset += written;
  }
}

void AtomicFile::flush() {
  write_fully(flushed_, {buffer_.get(), buffered_});
  flushed_ += static_cast<std::int64_t>(buffered_);
  buffered_ = 0;
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  require_open("append");
  if (buffered_ + bytes.size() > capacity_) flush();
  if (bytes.size() >= capacity_) {
    write_fully(flushed_, bytes);
    flushed_ += std::ssize(bytes);
  } else if (!bytes.empty()) {
    std::memcpy(buffer_.get() + buffered_, bytes.data(), bytes.size());
    buffered_ += bytes.size();
  }
  size_ = flushed_ + static_cast<std::int64_t>(buffered_);
}

void AtomicFile::overwrite(std::int64_t offset, std::span<const std::byte> bytes) {
  require_open("overwrite");
  if (offset < 0 || offset > size_ || std::ssize(bytes) > size_ - offset) {
    throw_invalid("{}: cannot overwrite {} bytes at offset {}: the file has {} bytes", path_,
                  bytes.size(), offset, size_);
  }
  flush();
  write_fully(offset, bytes);
}

void AtomicFile::commit() {
  require_open("commit");
  flush();
  if (::fsync(fd_) != 0) throw_errno(errno, path_, "sync the file");
  const int fd = std::exchange(fd_, -1);
  if (::close(fd) != 0) throw_errno(errno, path_, "close the file");
  rename_into_place(temp_path_, path_, on_existing_);
  committed_ = true;
  fsync_directory(parent_of(path_));
}

}  // namespace cellfeed::io
