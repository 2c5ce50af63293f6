// ChunkedArray: an N-dimensional array as a file stores it, in chunks of one shape or in
// one piece. A format says where chunks lie and how they are inflated; which chunks hold which
// elements is known here. Chunks, and the elements of a chunk, are numbered in row-major order; a
// chunk at the edge is as large as any other. Thread-safe.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/chunked/ranges.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::chunked {

struct ArrayDescription {
  std::string path;      // of the file, for messages
  std::string name;      // in the file
  std::int32_t key = 0;  // tells arrays of one file apart in a cache
  std::int64_t element_bytes = 0;
  std::vector<std::int64_t> shape = {};
  std::vector<std::int64_t> chunk_shape = {};  // of one piece: the shape, where it has elements
  // Whether chunks are read where they lie in memory; else they are brought there, and inflated,
  // first.
  bool is_mapped = true;
  std::vector<std::byte> fill = {};  // one element; empty for zeros
};

// Elements [first, first + length) of one chunk.
struct ChunkPart {
  std::int64_t chunk = 0;
  std::int64_t first = 0;
  std::int64_t length = 0;
};

class ChunkedArray {
 public:
  virtual ~ChunkedArray() = default;
  ChunkedArray(const ChunkedArray&) = delete;
  ChunkedArray& operator=(const ChunkedArray&) = delete;

  const std::string& path() const { return description_.path; }
  const std::string& name() const { return description_.name; }
  std::int32_t key() const { return description_.key; }
  bool is_mapped() const { return description_.is_mapped; }
  std::span<const std::int64_t> shape() const { return description_.shape; }
  std::span<const std::int64_t> chunk_shape() const { return description_.chunk_shape; }
  std::int64_t element_bytes() const { return description_.element_bytes; }
  std::int64_t length() const { return length_; }  // in elements
  std::int64_t n_chunks() const { return n_chunks_; }
  std::int64_t chunk_elements() const { return chunk_elements_; }
  std::int64_t chunk_bytes() const { return chunk_elements_ * element_bytes(); }
  // Memory that inflating one chunk takes, the chunk included; 0 where none is inflated.
  virtual std::int64_t inflating_bytes() const = 0;

  // The whole array in memory, where it lies there in one piece; else null.
  const std::byte* contiguous() const { return contiguous_; }
  // Locates these chunks, together. REQUIRED before all below, but where contiguous() has them.
  virtual void locate_chunks(std::span<const std::int64_t> chunks) const = 0;
  // Whether it has been, in which case it needs not be again.
  virtual bool is_located(std::int64_t chunk) const = 0;
  // Where the chunk lies in the file; no bytes where it was never written.
  virtual io::ByteRange stored_range(std::int64_t chunk) const = 0;
  bool is_written(std::int64_t chunk) const { return stored_range(chunk).length > 0; }
  // What stored ranges are to be read from; null where they are in memory.
  virtual const io::ByteSource* reads() const { return nullptr; }
  // One whole chunk, inflated. What lies past the shape is what the file holds. stored: its range,
  // where that was read already. REQUIRES: not mapped, out.size() == chunk_bytes().
  void inflate(std::int64_t chunk, std::span<std::byte> out,
               std::span<const std::byte> stored = {}) const;
  // Writes n elements of the fill value.
  void fill(std::int64_t n, std::byte* out) const;

  // Calls visit(ChunkPart) for the parts of a range, in order. REQUIRES, as all below: the range
  // lies in one line along the last dimension, such as a row of a matrix.
  template <typename Visit>
  void for_each_part(const EntryRange& range, Visit&& visit) const;
  // The part of a range in a chunk that holds some of it, and where it begins in the range.
  struct PartOfRange {
    ChunkPart part;
    std::int64_t begin = 0;
  };
  PartOfRange part_in(const EntryRange& range, std::int64_t chunk) const;
  std::int64_t first_chunk(const EntryRange& range) const;
  // Where the elements of a range lie in memory. REQUIRES: mapped.
  void append_pieces(const EntryRange& range, std::vector<RowPiece>& pieces) const;

 protected:
  // REQUIRES: lengths that multiply to less than 2^63 bytes, for the array and for one chunk, and
  // fewer than 2^63 chunks.
  explicit ChunkedArray(ArrayDescription description);
  void set_contiguous(const std::byte* elements) { contiguous_ = elements; }
  // As inflate. stored: without data where mapped() has none, and so the format reads it by itself.
  // REQUIRES: the chunk was written.
  virtual void inflate_written(std::int64_t chunk, std::span<const std::byte> stored,
                               std::span<std::byte> out) const = 0;
  // The stored range of a chunk in memory; null where it was never written, or is not in memory
  // (of what is not mapped). REQUIRES: no reads().
  virtual const std::byte* mapped(std::int64_t chunk) const = 0;

 private:
  // Where a line along the last dimension begins.
  struct Line {
    std::int64_t begin = 0;  // its first element, of the array
    std::int64_t chunk = 0;  // the first of its chunks, whose numbers follow one another
    std::int64_t first = 0;  // its first element, of each of its chunks
  };
  Line line_of(std::int64_t element) const {
    return description_.shape.size() == 1 ? Line{} : find_line(element);
  }
  Line find_line(std::int64_t element) const;
  const std::byte* fill_line() const;

  const ArrayDescription description_;
  std::int64_t length_ = 1;
  std::int64_t chunk_elements_ = 1;
  std::int64_t n_chunks_ = 1;
  const std::byte* contiguous_ = nullptr;
  // As many elements of the fill value as a chunk has along the last dimension; made when asked
  // for.
  mutable exec::PerProcess<std::vector<std::byte>> fill_line_;
};

template <typename Visit>
void ChunkedArray::for_each_part(const EntryRange& range, Visit&& visit) const {
  if (range.begin >= range.end) return;
  const Line line = line_of(range.begin);
  const std::int64_t step = description_.chunk_shape.back();
  std::int64_t block = (range.begin - line.begin) / step;
  std::int64_t within = range.begin - line.begin - block * step;
  for (std::int64_t rest = range.end - range.begin; rest > 0; within = 0, ++block) {
    const std::int64_t length = std::min(rest, step - within);
    visit(ChunkPart{line.chunk + block, line.first + within, length});
    rest -= length;
  }
}

}  // namespace cellfeed::chunked
