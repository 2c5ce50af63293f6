// Fractal heap: the links and attributes of dense storage, by heap ID. HDF5 File Format
// Specification 4.0, III.G. Not thread-safe. Lifetime: the FileBytes outlives it.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/hdf5/cursor.h"
#include "cellfeed/hdf5/file_bytes.h"
#include "cellfeed/hdf5/walk_bound.h"

namespace cellfeed::hdf5 {

class FractalHeap {
 public:
  // Reads the header and where all direct blocks lie: a round trip a level. Throws kCorruptData, or
  // kUnsupported for a heap with filters.
  FractalHeap(const FileBytes& file, Address header);

  std::uint64_t id_bytes() const { return id_bytes_; }
  // The objects of these IDs, in their order; their blocks are read together. Throws kCorruptData,
  // also where they have more bytes together than the file. REQUIRES: IDs of id_bytes() each.
  std::vector<Bytes> read(std::span<const Bytes> ids);

 private:
  struct Block {
    std::uint64_t offset = 0;  // in the heap's address space, its own header included
    std::uint64_t n_bytes = 0;
    Address address = 0;
    bool is_checked = false;
  };
  struct Indirect {
    Address address = 0;
    std::uint64_t offset = 0;
    std::uint64_t n_rows = 0;
  };
  struct Place {
    std::uint64_t offset = 0;
    std::uint64_t n_bytes = 0;
  };
  struct HugeObject {
    Address address = 0;
    std::uint64_t n_bytes = 0;
  };

  void read_header(Cursor at);
  void check_table(Cursor& at) const;
  void find_blocks();
  // Adds its direct blocks; returns its indirect ones.
  std::vector<Indirect> read_indirect(const Indirect& node);
  std::uint64_t row_block_bytes(std::uint64_t row) const;
  std::uint64_t block_header_bytes() const;
  Place managed_place(const Bytes& id) const;
  Block& block_of(const Place& place);
  Bytes read_managed(const Place& place);
  Bytes read_huge(const Bytes& id);
  Bytes read_tiny(const Bytes& id) const;
  void read_huge_index();
  [[noreturn]] void fail(const char* what) const;

  const FileBytes* file_;
  Address header_;
  WalkBound bound_;
  std::uint64_t id_bytes_ = 0;
  bool has_block_checksums_ = false;
  std::uint64_t max_managed_bytes_ = 0;
  Address huge_index_ = kUndefinedAddress;
  std::uint64_t width_ = 0;
  std::uint64_t start_bytes_ = 0;
  std::uint64_t max_direct_bytes_ = 0;
  int heap_bits_ = 0;
  Address root_ = kUndefinedAddress;
  std::uint64_t n_root_rows_ = 0;
  int offset_bytes_ = 0;  // of an offset in an ID and in a block
  int length_bytes_ = 0;  // of a length in an ID
  std::uint64_t max_direct_rows_ = 0;
  std::uint64_t max_rows_ = 0;
  std::vector<Block> blocks_;  // ascending by offset
  std::optional<std::map<std::uint64_t, HugeObject>> huge_objects_;
};

}  // namespace cellfeed::hdf5
