// Files of known size that many threads write to at known offsets: a new one, which appears whole
// or not at all, and one that is made longer. Thread-safe: write_at.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/temp_file.h"

namespace cellfeed::series {

// Bytes that one checksum is of.
inline constexpr std::int64_t kSegmentBytes = std::int64_t{4} << 20;
inline std::int64_t n_segments(std::int64_t bytes) {
  return (bytes + kSegmentBytes - 1) / kSegmentBytes;
}

class PlacedBytes {
 public:
  PlacedBytes(const PlacedBytes&) = delete;
  PlacedBytes& operator=(const PlacedBytes&) = delete;
  virtual ~PlacedBytes() = default;

  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Of one segment, read back from the file. end: of the bytes that count.
  std::uint64_t segment_checksum(std::int64_t segment, std::int64_t end) const;
  std::uint64_t segment_checksum(std::int64_t segment) const {
    return segment_checksum(segment, bytes_);
  }
  std::int64_t size() const { return bytes_; }
  const std::string& path() const { return path_; }

 protected:
  PlacedBytes(std::string path, std::int64_t bytes) : path_(std::move(path)), bytes_(bytes) {}
  // Throws kNoSpace where the disk has too little for bytes [from, size()).
  void take_room(int fd, std::int64_t from);

  void begin_write_back(std::int64_t n);

  int fd_ = -1;
  std::atomic<std::int64_t> written_{0};
  std::string path_;
  std::int64_t bytes_;
};

class PlacedFile : public PlacedBytes {
 public:
  // Takes the space at once: throws kNoSpace where the disk has too little.
  PlacedFile(io::FileTarget target, std::int64_t bytes);
  void commit() { file_.publish(); }

 private:
  io::TempFile file_;
};

// What was there stays as it is; unless it is kept the file ends as long as it was.
class LongerFile : public PlacedBytes {
 public:
  // Bytes past `before` are of nobody. Throws kCorruptData where the file has less, kNoSpace, kIo.
  LongerFile(const io::Directory& directory, const std::string& name, std::int64_t before,
             std::int64_t bytes);
  ~LongerFile() override;
  // What was written is durable when it returns.
  void sync();
  void keep() { is_kept_ = true; }

 private:
  void cut_off();
  int descriptor_ = -1;
  std::int64_t before_;
  bool is_kept_ = false;
};

}  // namespace cellfeed::series
