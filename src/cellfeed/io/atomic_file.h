// Files that appear whole or not at all: written under a temporary name, synced, then renamed.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "cellfeed/io/temp_file.h"

namespace cellfeed::io {

// Not thread-safe. In a forked child it is inert: only the process that made it removes or renames
// the file.
class AtomicFile {
 public:
  // Throws kAlreadyExists now when the target exists and is not to be replaced, rather than after
  // hours of writing. buffer_bytes: gathered before each write(2).
  explicit AtomicFile(const FileTarget& target, OnExisting on_existing = OnExisting::kRefuse,
                      std::size_t buffer_bytes = std::size_t{1} << 20);

  const std::string& path() const { return file_->path(); }
  const std::string& temp_path() const { return file_->temp_path(); }
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
  void require_open(std::string_view operation) const;

  std::unique_ptr<NewFile> file_;
  std::int64_t size_ = 0;     // appended, buffered bytes included
  std::int64_t flushed_ = 0;  // handed to the kernel
  std::size_t capacity_;
  std::size_t buffered_ = 0;
  std::unique_ptr<std::byte[]> buffer_;
};

// Replaces the file; directories that are missing are made, leftovers of dead writers removed.
void write_small_file(const std::string& path, std::string_view text);
// The same in a directory that is there.
void write_small_file(const FileTarget& target, std::string_view text);

// One writer per directory, across processes; the kernel frees it when the holder dies. On file
// systems without flock(2) a file, "<lock_name>.held", takes its place: it names its holder, and
// whoever killed that one has to remove it. Its time of change says when the holder was last alive.
// Not thread-safe. A forked child does not hold the lock's name, and leaves it alone.
class DirectoryLock {
 public:
  // Throws kAlreadyExists naming the process that holds it; kIo where that one has ended, and
  // without flock nothing frees what it held.
  explicit DirectoryLock(const Directory& directory, const std::string& lock_name = ".lock");

  static constexpr const char* kHeldSuffix = ".held";

  // For those who wait where there is no flock; cheap.
  void show_life() const { held_->show_life(); }

 private:
  std::unique_ptr<HeldLock> held_;
};

// Null where another process holds it.
std::unique_ptr<DirectoryLock> lock_unless_held(const Directory& directory,
                                                const std::string& lock_name);

}  // namespace cellfeed::io
