// Local heap: the names of an old group's links. HDF5 File Format Specification 4.0, III.D.
// Thread-safe: immutable. Lifetime: the FileBytes outlives it.
#pragma once

#include <string>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/file_bytes.h"

namespace cellfeed::hdf5 {

class LocalHeap {
 public:
  // Reads the header; its data segment lies at data_range(). Throws kCorruptData.
  LocalHeap(const FileBytes& file, Address header);

  AddressRange data_range() const { return data_; }
  // The text that begins at this offset of the data segment.
  std::string text(std::uint64_t offset) const;

 private:
  const FileBytes* file_;
  AddressRange data_;
};

// Bytes of a header, for fetching.
std::uint64_t local_heap_header_bytes(const FileBytes& file);

}  // namespace cellfeed::hdf5
