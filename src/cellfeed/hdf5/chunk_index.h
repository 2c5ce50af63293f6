// ChunkIndex: where the chunks of a dataset lie, from any of the indexes that HDF5 keeps of them.
// HDF5 File Format Specification 4.0, III.A.1 and VII. It keeps nothing: nodes are read when asked
// for, many in one round trip, and stay with the FileBytes. Thread-safe: immutable. Lifetime: the
// FileBytes outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/hdf5/chunk_grid.h"
#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/hdf5/layout_message.h"

namespace cellfeed::hdf5 {

struct ChunkPlace {
  bool is_written = false;    // else all elements have the fill value
  std::uint64_t offset = 0;   // in bytes from the start of the source
  std::uint64_t n_bytes = 0;  // as stored
  std::uint32_t skipped = 0;  // bit i: filter i was not applied
};

class ChunkIndex {
 public:
  virtual ~ChunkIndex() = default;
  ChunkIndex(const ChunkIndex&) = delete;
  ChunkIndex& operator=(const ChunkIndex&) = delete;

  const ChunkGrid& grid() const { return grid_; }
  // The places of many chunks, by their numbers in the grid, in any order. The fewest round trips
  // come of asking for many at once. Throws kCorruptData naming an offset; a place that is returned
  // lies inside the source. REQUIRES: numbers below n_chunks(), as many places as numbers.
  void locate(std::span<const std::uint64_t> numbers, std::span<ChunkPlace> places) const;

 protected:
  // What an index says: the address as it stands in the file, and undefined for none.
  struct Entry {
    Address address = kUndefinedAddress;
    std::uint64_t n_bytes = 0;
    std::uint32_t skipped = 0;
  };
  ChunkIndex(const FileBytes& file, ChunkedLayout layout, ChunkGrid grid, bool has_filters)
      : file_(file),
        layout_(std::move(layout)),
        grid_(std::move(grid)),
        has_filters_(has_filters) {}
  // coordinates: rank numbers for each chunk, in chunks, in ascending order.
  virtual void find(std::span<const std::uint64_t> coordinates, std::span<Entry> found) const = 0;

  const FileBytes& file_;
  const ChunkedLayout layout_;
  const ChunkGrid grid_;
  const bool has_filters_;

 private:
  ChunkPlace checked_place(std::uint64_t number, std::span<const std::uint64_t> coordinates,
                           const Entry& entry) const;
};

// Reads nothing yet. has_filters: whether the dataset's pipeline has any.
std::unique_ptr<ChunkIndex> make_chunk_index(const FileBytes& file, ChunkedLayout layout,
                                             ChunkGrid grid, bool has_filters);

}  // namespace cellfeed::hdf5
