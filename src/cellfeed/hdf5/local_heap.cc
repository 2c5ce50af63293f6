// Local heaps.
#include "cellfeed/hdf5/local_heap.h"

#include <algorithm>
#include <cstdint>

namespace cellfeed::hdf5 {
namespace {

constexpr std::uint64_t kMaxTextBytes = 1 << 16;  // of a name: as much as a link message holds

}  // namespace

std::uint64_t local_heap_header_bytes(const FileBytes& file) {
  return static_cast<std::uint64_t>(8 + 2 * file.length_size() + file.offset_size());
}

LocalHeap::LocalHeap(const FileBytes& file, Address header) : file_(&file) {
  Cursor at(file, header, local_heap_header_bytes(file), "local heap");
  at.expect_signature("HEAP");
  if (const int version = at.u8(); version != 0) at.fail("version {} is not known", version);
  at.skip(3);
  data_.n_bytes = at.read_length();
  at.read_length();
  data_.address = at.read_address();
  if (!file.holds(data_.address, data_.n_bytes))
    at.fail("its data segment lies outside of the file: address {}, bytes {}", data_.address,
            data_.n_bytes);
}

std::string LocalHeap::text(std::uint64_t offset) const {
  Cursor segment(*file_, data_.address, 0, "local heap data segment");
  if (offset > data_.n_bytes) segment.fail("a name begins outside of it");
  const std::uint64_t room = std::min(data_.n_bytes - offset, kMaxTextBytes);
  return Cursor(*file_, data_.address + offset, room, "local heap data segment").text();
}

}  // namespace cellfeed::hdf5
