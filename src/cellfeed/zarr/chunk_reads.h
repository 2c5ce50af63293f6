// ChunkReads: what is stored of chunks of one array, read all at once where it does not lie in
// memory. Not thread-safe. Lifetime: the source outlives it.
#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/io/range_reads.h"
#include "cellfeed/zarr/chunk_source.h"

namespace cellfeed::zarr {

class ChunkReads {
 public:
  explicit ChunkReads(const ChunkSource& source) : source_(source) {}

  // Returns the chunk's number; they count from 0. REQUIRES: it was written; before read().
  std::size_t add(const ChunkPlace& place);
  void read();
  // REQUIRES: read() returned.
  std::span<const std::byte> bytes(std::size_t number) const;

 private:
  struct Stored {
    std::span<const std::byte> mapped;
    std::optional<std::size_t> read;  // none where it is mapped
  };
  const ChunkSource& source_;
  std::vector<Stored> stored_;
  io::RangeReads reads_;
};

}  // namespace cellfeed::zarr
