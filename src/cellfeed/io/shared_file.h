// SharedFile: a local file of a fixed length that several processes read and fill at once. Who has
// it open holds a shared lock on it, so that what nobody reads is told from what somebody does.
// Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>

#include "cellfeed/io/temp_file.h"

namespace cellfeed::io {

class SharedFile {
 public:
  // Null where there is none. Throws kIo.
  static std::unique_ptr<SharedFile> open(const Directory& directory, const std::string& name);
  // Appears whole: these bytes and a hole behind them, `bytes` long in all. Throws what TempFile
  // throws.
  static void make(const FileTarget& target, OnExisting on_existing,
                   std::span<const std::byte> head, std::int64_t bytes);
  // False where somebody has it open. Without locks (some network disks) nobody is seen to.
  static bool remove_unless_open(const Directory& directory, const std::string& name);

  ~SharedFile();
  SharedFile(const SharedFile&) = delete;
  SharedFile& operator=(const SharedFile&) = delete;

  const std::string& path() const { return path_; }
  bool is_writable() const { return is_writable_; }
  std::int64_t size() const { return size_; }
  // What it takes of the disk, holes left out.
  std::int64_t disk_bytes() const;
  std::int64_t modified_ns() const;
  bool has_name() const;
  bool is_same(const SharedFile& other) const;  // one file, opened twice
  // False where the bytes cannot be had: it was cut, or its disk fails.
  bool read(std::int64_t offset, std::span<std::byte> out) const;
  // The disk begins to write. Throws kNoSpace or kIo, also where it was cut meanwhile. REQUIRES:
  // is_writable().
  void write(std::int64_t offset, std::span<const std::byte> bytes) const;
  // All that was written lasts, or an error is thrown: kNoSpace or kIo.
  void sync() const;
  // As if it were written to now. What cannot be noted is not.
  void note_use() const;

 private:
  SharedFile(std::string path, int fd, bool is_writable);

  const std::string path_;
  const int fd_;
  const bool is_writable_;
  std::int64_t size_ = 0;  // when it was opened
};

}  // namespace cellfeed::io
