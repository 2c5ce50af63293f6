// FileBytes: the metadata bytes of one HDF5 file, by address, with what was read kept within a
// bound. Thread-safe once the superblock has set its sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/page_cache.h"

namespace cellfeed::hdf5 {

// Counts from the base address, as every address in a file does.
using Address = std::uint64_t;
inline constexpr Address kUndefinedAddress = ~Address{0};

struct AddressRange {
  Address address = 0;
  std::uint64_t n_bytes = 0;
};

using io::Bytes;

class FileBytes {
 public:
  explicit FileBytes(std::shared_ptr<const io::ByteSource> source,
                     io::PageCacheOptions options = {});

  const std::string& path() const { return source()->path(); }
  const std::shared_ptr<const io::ByteSource>& source() const { return pages_.source(); }
  // Of the whole source, the user block included.
  std::uint64_t size() const { return size_; }

  // What the superblock says; the file's own address 0 lies at base_address of the source.
  Address base_address() const { return base_address_; }
  int offset_size() const { return offset_size_; }
  int length_size() const { return length_size_; }
  // REQUIRES: sizes of 1 to 8 bytes, base_address <= size(), no other thread reads yet.
  void set_superblock(Address base_address, int offset_size, int length_size);

  // Whether all of these bytes are inside the source.
  bool holds(Address address, std::uint64_t n_bytes) const;
  // Where an address lies in the source. REQUIRES: holds(address, 0).
  std::int64_t source_offset(Address address) const {
    return static_cast<std::int64_t>(base_address_ + address);
  }
  // Throws kCorruptData unless all of these bytes are inside the source; nothing is allocated
  // before.
  Bytes read(Address address, std::uint64_t n_bytes) const;
  // Each of the ranges, those that are not there in one round trip; none is kept. Throws as read
  // does, before any reading.
  std::vector<Bytes> read_many(std::span<const AddressRange> ranges) const;
  // Reads what is not there yet of all ranges in one round trip, so that reading them next waits
  // for nothing. A hint: what lies outside of the source is left out, and so is what exceeds half
  // of what is kept. Does nothing where the source has a map().
  void fetch(std::span<const AddressRange> ranges) const;
  // Where each round trip counts: the first page of the source and its last MiBs, as writers put
  // their metadata there.
  void fetch_ends() const;

 private:
  void check(Address address, std::uint64_t n_bytes) const;
  io::ByteRange source_range(const AddressRange& range) const {
    return {source_offset(range.address), static_cast<std::int64_t>(range.n_bytes)};
  }

  const io::PageCache pages_;
  const std::uint64_t size_;
  Address base_address_ = 0;
  int offset_size_ = 8;
  int length_size_ = 8;
};

}  // namespace cellfeed::hdf5
