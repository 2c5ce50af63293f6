// The kinds of chunk indexes, one file each. Internal to chunk_index.cc and these files.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cellfeed/hdf5/chunk_index.h"
#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/fetched_visits.h"

namespace cellfeed::hdf5 {

std::unique_ptr<ChunkIndex> make_btree1_index(const FileBytes& file, ChunkedLayout layout,
                                              ChunkGrid grid, bool has_filters);
std::unique_ptr<ChunkIndex> make_single_chunk_index(const FileBytes& file, ChunkedLayout layout,
                                                    ChunkGrid grid, bool has_filters);
std::unique_ptr<ChunkIndex> make_implicit_index(const FileBytes& file, ChunkedLayout layout,
                                                ChunkGrid grid, bool has_filters);
std::unique_ptr<ChunkIndex> make_fixed_array_index(const FileBytes& file, ChunkedLayout layout,
                                                   ChunkGrid grid, bool has_filters);
std::unique_ptr<ChunkIndex> make_extensible_array_index(const FileBytes& file, ChunkedLayout layout,
                                                        ChunkGrid grid, bool has_filters);
std::unique_ptr<ChunkIndex> make_btree2_index(const FileBytes& file, ChunkedLayout layout,
                                              ChunkGrid grid, bool has_filters);

// Row-major number of a chunk over these counts, of which the first does not matter; none where it
// does not fit 63 bits.
std::optional<std::uint64_t> linear_number(std::span<const std::uint64_t> coordinates,
                                           std::span<const std::uint64_t> counts);

// These numbers for many chunks. Throws kCorruptData where one does not fit.
std::vector<std::uint64_t> linear_numbers(const FileBytes& file,
                                          std::span<const std::uint64_t> coordinates,
                                          std::span<const std::uint64_t> counts);

// A bitmap's bits are counted from the highest of each byte. REQUIRES: i is inside.
inline bool bit_at(std::span<const std::byte> bits, std::uint64_t i) {
  return (std::to_integer<unsigned>(bits[i / 8]) & (0x80u >> (i % 8))) != 0;
}

// How the arrays store the place of one chunk. VII.C.2, VII.D.2.
class ArrayEntryFormat {
 public:
  // entry_bytes: as the array's header says. Throws kCorruptData where it cannot be.
  ArrayEntryFormat(const Cursor& header, int client, int entry_bytes);
  // Reads one at the cursor. unfiltered_bytes: of a chunk without filters.
  void read(Cursor& at, std::uint64_t unfiltered_bytes, Address& address, std::uint64_t& n_bytes,
            std::uint32_t& skipped) const;
  std::uint64_t bytes() const { return static_cast<std::uint64_t>(entry_bytes_); }

 private:
  int entry_bytes_;
  int size_bytes_ = 0;  // of a filtered chunk's stored size; zero where there are no filters
};

}  // namespace cellfeed::hdf5
