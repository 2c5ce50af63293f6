#include "cellfeed/io/atomic_file.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "cellfeed/base/error.h"
#include "cellfeed/io/file_system.h"

namespace cellfeed::io {

AtomicFile::AtomicFile(const FileTarget& target, OnExisting on_existing, std::size_t buffer_bytes)
    : file_((*target.directory()).create(target.name(), on_existing)),
      capacity_(std::max<std::size_t>(buffer_bytes, 1)),
      buffer_(std::make_unique_for_overwrite<std::byte[]>(capacity_)) {}

void AtomicFile::require_open(std::string_view operation) const {
  if (file_->is_open()) return;
  throw_error(ErrorKind::kInternal, path(),
              "cannot {}: the file is committed, or belongs to the parent process", operation);
}

void AtomicFile::flush() {
  file_->write(flushed_, {buffer_.get(), buffered_});
  flushed_ += static_cast<std::int64_t>(buffered_);
  buffered_ = 0;
}

void AtomicFile::append(std::span<const std::byte> bytes) {
  require_open("append");
  if (buffered_ + bytes.size() > capacity_) flush();
  if (bytes.size() >= capacity_) {
    file_->write(flushed_, bytes);
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
    throw_invalid("{}: cannot overwrite {} bytes at offset {}: the file has {} bytes", path(),
                  bytes.size(), offset, size_);
  }
  flush();
  file_->write(offset, bytes);
}

void AtomicFile::commit() {
  require_open("commit");
  flush();
  file_->publish();
}

void write_small_file(const std::string& path, std::string_view text) {
  make_directories(std::filesystem::path(path).parent_path().string());
  write_small_file(FileTarget(path), text);
}

void write_small_file(const FileTarget& target, std::string_view text) {
  remove_leftovers(target);
  AtomicFile file(target, OnExisting::kReplace);
  file.append(std::as_bytes(std::span<const char>(text)));
  file.commit();
}

DirectoryLock::DirectoryLock(const Directory& directory, const std::string& lock_name)
    : held_((*directory).lock(lock_name)) {}

std::unique_ptr<DirectoryLock> lock_unless_held(const Directory& directory,
                                                const std::string& lock_name) {
  try {
    return std::make_unique<DirectoryLock>(directory, lock_name);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kAlreadyExists) throw;
    return nullptr;
  }
}

}  // namespace cellfeed::io
