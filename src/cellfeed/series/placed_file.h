// PlacedFile: a file of known size that many threads write to at known offsets; it appears whole,
// with its checksums, or not at all. Thread-safe: write_at.
#pragma once

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

class PlacedFile {
 public:
  // Takes the space at once: throws kNoSpace where the disk has too little.
  PlacedFile(io::FileTarget target, std::int64_t bytes);
  void write_at(std::int64_t offset, std::span<const std::byte> bytes);
  // Of one segment, read back from the file.
  std::uint64_t segment_checksum(std::int64_t segment) const;
  std::int64_t size() const { return bytes_; }
  void commit() { file_.publish(); }

 private:
  io::TempFile file_;
  std::int64_t bytes_;
};

}  // namespace cellfeed::series
