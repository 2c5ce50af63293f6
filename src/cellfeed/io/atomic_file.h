// Files that appear whole or not at all: written under a temporary name, synced, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace cellfeed::io {

enum class OnExisting { kRefuse, kReplace };

// "<path>.tmp-<pid>-<random>", in the directory of path.
std::string make_temp_path(const std::string& path);
// True for a file name that make_temp_path made: what a killed writer leaves behind.
bool is_temp_name(std::string_view file_name);

// Syncs temp_path, renames it to path, and syncs the directory. With kRefuse an existing target is
// kAlreadyExists and temp_path stays. For writers that need a path (HDF5, Arrow); others use
// AtomicFile.
void publish_file(const std::string& temp_path, const std::string& path,
                  OnExisting on_existing = OnExisting::kRefuse);

void fsync_directory(const std::string& directory);

// Not thread-safe. In a forked child it is inert: only the process that made it removes or renames
// the file.
class AtomicFile {
 public:
  // Throws kAlreadyExists now when the target exists and is not to be replaced, rather than after
  // hours of writing. buffer_bytes: gathered before each write(2).
  explicit AtomicFile(std::string path, OnExisting on_existing = OnExisting::kRefuse,
                      std::size_t buffer_bytes = std::size_t{1} << 20);
  // Removes the temporary file unless committed.
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  const std::string& path() const { return path_; }
  const std::string& temp_path() const { return temp_path_; }
  // Bytes appended so far.
  std::int64_t size() const { return size_; }

  void append(std::span<const std::byte> bytes);
  // Overwrites bytes that were appended before, such as a header. Throws kInvalidArgument past
  // size().
  void overwrite(std::int64_t offset, std::span<const std::byte> bytes);
  // Flush, fsync, rename, fsync of the directory. Nothing may be written after it.
  void commit();

 private:
  void flush();
  void write_fully(std::int64_t offset, std::span<const std::byte> bytes);
  void require_open(std::string_view operation) const;

  std::string path_;
  std::string temp_path_;
  OnExisting on_existing_;
  std::uint64_t fork_generation_;
  int fd_ = -1;
  std::int64_t size_ = 0;     // appended, buffered bytes included
  std::int64_t flushed_ = 0;  // handed to the kernel
  std::size_t capacity_;
  std::size_t buffered_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
  bool committed_ = false;
};

// One writer per directory, across processes; the kernel frees it when the holder dies.
// Not thread-safe. A forked child does not hold the lock's name, and leaves it alone.
class DirectoryLock {
 public:
  // Throws kAlreadyExists naming the process that holds it.
  explicit DirectoryLock(const std::string& directory, std::string_view lock_name = ".lock");
  ~DirectoryLock();
  DirectoryLock(const DirectoryLock&) = delete;
  DirectoryLock& operator=(const DirectoryLock&) = delete;

  const std::string& lock_path() const { return lock_path_; }

 private:
  std::string lock_path_;
  std::uint64_t fork_generation_;
  int fd_ = -1;
};

}  // namespace cellfeed::io
