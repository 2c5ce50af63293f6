// FileBytes: the metadata bytes of one HDF5 file, by address, with what was read kept within a
// bound. Thread-safe once the superblock has set its sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::hdf5 {

// Counts from the base address, as every address in a file does.
using Address = std::uint64_t;
inline constexpr Address kUndefinedAddress = ~Address{0};

struct AddressRange {
  Address address = 0;
  std::uint64_t n_bytes = 0;
};

// Bytes that were read: a view of the source's map, or of memory that it owns.
class Bytes {
 public:
  Bytes() = default;
  Bytes(std::span<const std::byte> view, std::shared_ptr<const void> owner)
      : view_(view), owner_(std::move(owner)) {}

  std::span<const std::byte> view() const { return view_; }
  std::size_t size() const { return view_.size(); }
  // A part of them that lives as long as they do. REQUIRES: [offset, offset + n) is inside.
  Bytes part(std::size_t offset, std::size_t n) const { return {view_.subspan(offset, n), owner_}; }

 private:
  std::span<const std::byte> view_;
  std::shared_ptr<const void> owner_;
};

struct FileBytesOptions {
  // Unit of reading and keeping where the source has no map(). More costs bytes on a slow store,
  // less costs round trips.
  std::int64_t page_bytes = 16 << 10;
  // Pages kept at most; the least recently used one goes first.
  std::int64_t kept_bytes = 8 << 20;
};

class FileBytes {
 public:
  explicit FileBytes(std::shared_ptr<const io::ByteSource> source, FileBytesOptions options = {});

  const std::string& path() const { return source_->path(); }
  const std::shared_ptr<const io::ByteSource>& source() const { return source_; }
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

 private:
  using Page = std::shared_ptr<const std::vector<std::byte>>;
  struct KeptPage {
    Page page;
    std::list<std::uint64_t>::iterator use;
  };

  void check(Address address, std::uint64_t n_bytes) const;
  bool is_kept(std::uint64_t offset, std::uint64_t n_bytes) const;
  Page find_page(std::uint64_t number) const;
  void keep_page(std::uint64_t number, Page page) const;
  // Reads these pages, ascending, in one round trip; keeps and returns them.
  std::vector<Page> read_pages(std::span<const std::uint64_t> numbers) const;
  std::int64_t page_length(std::uint64_t number) const;
  Bytes read_through_pages(std::uint64_t offset, std::uint64_t n_bytes) const;

  const std::shared_ptr<const io::ByteSource> source_;
  const std::uint64_t size_;
  const std::uint64_t page_bytes_;
  const std::size_t max_pages_;
  Address base_address_ = 0;
  int offset_size_ = 8;
  int length_size_ = 8;

  mutable ForkSafeMutex mutex_;  // guards what follows; not held while reading
  mutable std::unordered_map<std::uint64_t, KeptPage> pages_;
  mutable std::list<std::uint64_t> uses_;  // page numbers, the last used one first
};

}  // namespace cellfeed::hdf5
