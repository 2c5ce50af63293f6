// Global heap: the bytes behind elements of variable length. HDF5 File Format Specification 4.0,
// III.E. Not thread-safe. Lifetime: the FileBytes outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {

// What an element of variable length stores beside its length.
struct GlobalHeapId {
  Address collection = 0;
  std::uint32_t index = 0;
};

// Keeps the collections it has read: elements that stand together lie in few of them.
class GlobalHeap {
 public:
  explicit GlobalHeap(const FileBytes& file) : file_(file), bound_(file, "global heap") {}

  // Reads the collections of these objects in two round trips, whatever their number. Throws
  // kCorruptData.
  void fetch(std::span<const GlobalHeapId> ids);
  // An object's bytes, which live as long as the heap. Throws kCorruptData where it is not there.
  std::span<const std::byte> object(const GlobalHeapId& id);

 private:
  struct Place {
    std::uint64_t offset = 0;  // 0: no such object
    std::uint64_t n_bytes = 0;
  };
  struct Collection {
    Bytes bytes;
    std::vector<Place> places;  // by index
  };

  const Collection& collection(Address address);
  void parse(Address address, const Bytes& bytes);

  const FileBytes& file_;
  WalkBound bound_;
  std::unordered_map<Address, Collection> collections_;
  Address last_address_ = kUndefinedAddress;
  const Collection* last_ = nullptr;
};

}  // namespace cellfeed::hdf5
