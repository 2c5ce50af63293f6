// ChunkGrid: a dataset's shape cut into chunks. Chunks are numbered in row-major order over the
// present shape; an index counts them in its own ways, from coordinates in chunks. Thread-safe:
// immutable.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/hdf5/dataspace_message.h"

namespace cellfeed::hdf5 {

class ChunkGrid {
 public:
  ChunkGrid() = default;
  // max_shape: kUnlimited where the dataset may grow for ever; empty where it is the shape.
  // path: for messages. Throws kCorruptData where ranks differ, a chunk has no elements or there
  // are 2^63 chunks.
  ChunkGrid(std::vector<std::uint64_t> shape, std::vector<std::uint64_t> max_shape,
            std::vector<std::uint64_t> chunk_shape, const std::string& path);

  std::size_t rank() const { return shape_.size(); }
  std::span<const std::uint64_t> shape() const { return shape_; }
  std::span<const std::uint64_t> max_shape() const { return max_shape_; }
  std::span<const std::uint64_t> chunk_shape() const { return chunk_shape_; }
  // In chunks, along each dimension.
  std::span<const std::uint64_t> counts() const { return counts_; }
  std::uint64_t n_chunks() const { return n_chunks_; }
  // REQUIRES: number < n_chunks(), out.size() == rank().
  void coordinates(std::uint64_t number, std::span<std::uint64_t> out) const;
  // Whether the chunk reaches past the shape.
  bool is_partial(std::span<const std::uint64_t> coordinates) const;
  // In chunks over the shape that the dataset may grow to; kUnlimited where that has no end.
  std::vector<std::uint64_t> max_counts() const;

 private:
  std::vector<std::uint64_t> shape_;
  std::vector<std::uint64_t> max_shape_;
  std::vector<std::uint64_t> chunk_shape_;
  std::vector<std::uint64_t> counts_;
  std::uint64_t n_chunks_ = 0;
};

}  // namespace cellfeed::hdf5
