// RowBytes: rows of a file of a series as memory: all of a file that is mapped, else those that
// were asked for, read many at once. Thread-safe: immutable. Lifetime: the source outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/range_reads.h"
#include "cellfeed/series/metadata.h"

namespace cellfeed::series {

inline bool is_mapped(const io::ByteSource& source) {
  return source.size() == 0 || !source.map().empty();
}

class RowBytes {
 public:
  // rows: in any order; some may be there twice. Of a mapped file all rows are there. Throws what
  // the source throws. REQUIRES: rows inside the source.
  RowBytes(const io::ByteSource& source, std::int64_t row_bytes, std::span<const Extent> rows);
  // The same, but need not wait for what is to be read: wait() does, before row() is asked.
  static RowBytes begin(const io::ByteSource& source, std::int64_t row_bytes,
                        std::span<const Extent> rows);
  void wait() { reads_.wait(); }

  // The rows after it lie behind it, as far as they were asked for together.
  const std::byte* row(std::int64_t row) const {
    return mapped_ != nullptr ? mapped_ + row * row_bytes_ : read_row(row);
  }

 private:
  explicit RowBytes(std::int64_t row_bytes) : row_bytes_(row_bytes) {}
  void begin_reads(const io::ByteSource& source, std::span<const Extent> rows);
  const std::byte* read_row(std::int64_t row) const;

  const std::byte* mapped_ = nullptr;
  std::int64_t row_bytes_;
  io::RangeReads reads_;
  std::vector<Extent> read_;  // ascending, apart: of each range
};

}  // namespace cellfeed::series
