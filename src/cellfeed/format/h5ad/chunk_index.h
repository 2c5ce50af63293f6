// ChunkIndex: finds the chunks of a one-dimensional dataset in the file's own B-tree, in
// logarithmic time and without HDF5's lock: HDF5 1.10 walks the whole index for each question. HDF5
// File Format Specification 3.0, III.A.1, IV.A. Thread-safe: immutable. Lifetime: the bytes outlive
// it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace cellfeed::format::h5ad {

struct ChunkPlace {
  std::uint64_t offset = 0;   // in bytes from the start of the file
  std::uint32_t size = 0;     // as stored
  std::uint32_t skipped = 0;  // filters that were not applied
};

class ChunkIndex {
 public:
  // Reads the object header at header_address (as H5Oget_info gives it; addresses count from base).
  // Empty when the index is not a version 1 B-tree (files written with libver="latest"): ask HDF5
  // then. path: for messages.
  static std::optional<ChunkIndex> open(std::span<const std::byte> file, std::uint64_t base,
                                        std::uint64_t header_address, std::string path);
  // Where the chunk that starts at this element lies; empty when it was never written. Throws
  // kCorruptData.
  std::optional<ChunkPlace> find(std::uint64_t first_element) const;

 private:
  ChunkIndex(std::span<const std::byte> file, std::uint64_t base, std::uint64_t root,
             std::string path);
  std::span<const std::byte> file_;
  std::uint64_t base_;
  std::uint64_t root_;
  std::string path_;
};

}  // namespace cellfeed::format::h5ad
