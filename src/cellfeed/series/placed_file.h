// Files of known size that many threads write to at known offsets: a new one, which appears whole
// or not at all, and one that is made longer. Those of a file system that has no offsets to write
// at are kept in a local file without a name (TMPDIR), and sent when they are whole. Thread-safe:
// write_at.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/running_checksum.h"
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
  // Of one segment: as it was written where one PlacedRun wrote all of it, else read back from the
  // file. end: of the bytes that count.
  std::uint64_t segment_checksum(std::int64_t segment, std::int64_t end) const;
  std::uint64_t segment_checksum(std::int64_t segment) const {
    return segment_checksum(segment, bytes_);
  }
  std::int64_t size() const { return bytes_; }
  const std::string& path() const { return path_; }

 protected:
  PlacedBytes(std::string path, std::int64_t bytes)
      : path_(std::move(path)),
        disk_path_(path_),
        bytes_(bytes),
        known_(static_cast<std::size_t>(n_segments(bytes))) {}
  // The bytes are in this local file, which loses its name.
  void keep_elsewhere(io::TempFile& file);
  // Throws kNoSpace where the disk has too little for bytes [from, size()).
  void take_room(int fd, std::int64_t from);

  void begin_write_back(std::int64_t n);

  int fd_ = -1;
  std::atomic<std::int64_t> written_{0};
  std::string path_;
  std::string disk_path_;  // of what is written to
  std::int64_t bytes_;

 private:
  friend class PlacedRun;
  std::vector<std::optional<std::uint64_t>> known_;  // checksums of segments
};

// Bytes from an offset on, written one after another, many at once. Not thread-safe.
// Lifetime: the file outlives it.
class PlacedRun {
 public:
  // unit: what is added at a time, at least. bytes: of the run.
  PlacedRun(PlacedBytes& file, std::int64_t begin, std::int64_t bytes, std::int64_t unit);
  // Where to put the next ones: room for one unit at least. add() says how many there are.
  std::span<std::byte> room();
  void add(std::size_t n) { n_ += n; }
  // To be called at the end.
  void flush();

 private:
  void add_to_checksums(std::span<const std::byte> bytes);
  PlacedBytes& file_;
  std::int64_t at_;
  const std::size_t unit_, capacity_;
  std::unique_ptr<std::byte[]> bytes_;
  std::size_t n_ = 0;
  // Of the segment being written, where the run has all of it.
  std::optional<io::RunningChecksum> checksum_;
};

class PlacedFile : public PlacedBytes {
 public:
  // Takes the space at once: throws kNoSpace where the disk has too little.
  PlacedFile(io::FileTarget target, std::int64_t bytes);
  void commit();

 private:
  const io::FileTarget target_;
  io::TempFile file_;
};

// What was there stays as it is; unless it is kept the file ends as long as it was.
class LongerFile : public PlacedBytes {
 public:
  // Bytes past `before` are of nobody. Throws kCorruptData where the file has less, kNoSpace, kIo.
  LongerFile(const io::Directory& directory, const std::string& name, std::int64_t before,
             std::int64_t bytes);
  ~LongerFile() override;
  // What was written is durable when it returns, and for readers to see.
  void sync();
  void keep() { is_kept_ = true; }

 private:
  void open_local();
  void copy_remote();
  void cut_off();
  const io::FileTarget target_;
  int descriptor_ = -1;
  std::optional<io::TempFile> copy_;  // of a file that cannot be made longer where it is
  std::int64_t before_;
  bool is_kept_ = false;
};

}  // namespace cellfeed::series
