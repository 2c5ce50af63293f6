// Addresses of a file to ranges of its source.
#include "cellfeed/hdf5/file_bytes.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::hdf5 {
namespace {

// Metadata of what was written last: in files of anndata all groups and the smaller arrays.
constexpr std::int64_t kTailBytes = std::int64_t{2} << 20;

}  // namespace

FileBytes::FileBytes(std::shared_ptr<const io::ByteSource> source, io::PageCacheOptions options)
    : pages_(std::move(source), options),
      size_(static_cast<std::uint64_t>(pages_.source()->size())) {}

void FileBytes::set_superblock(Address base_address, int offset_size, int length_size) {
  base_address_ = base_address;
  offset_size_ = offset_size;
  length_size_ = length_size;
}

bool FileBytes::holds(Address address, std::uint64_t n_bytes) const {
  const std::uint64_t room = size_ - base_address_;
  return address <= room && n_bytes <= room - address;
}

void FileBytes::check(Address address, std::uint64_t n_bytes) const {
  if (!holds(address, n_bytes))
    throw_error(ErrorKind::kCorruptData, path(),
                "damaged or truncated HDF5 file: metadata lies outside of it: address {}, bytes "
                "{}, base address {}, size of the file {}",
                address, n_bytes, base_address_, size_);
}

Bytes FileBytes::read(Address address, std::uint64_t n_bytes) const {
  check(address, n_bytes);
  return pages_.read(source_range({address, n_bytes}));
}

std::vector<Bytes> FileBytes::read_many(std::span<const AddressRange> ranges) const {
  std::vector<io::ByteRange> of_source;
  for (const AddressRange& range : ranges) {
    check(range.address, range.n_bytes);
    of_source.push_back(source_range(range));
  }
  return pages_.read_many(of_source);
}

void FileBytes::fetch_ends() const {
  const io::ByteSource& source = *pages_.source();
  if (source.costs().page_bytes == 0 || source.size() == 0) return;
  const std::int64_t tail = std::min(source.size(), kTailBytes);
  const io::ByteRange ends[] = {{0, 1}, {source.size() - tail, tail}};
  pages_.fetch(ends);
}

void FileBytes::fetch(std::span<const AddressRange> ranges) const {
  std::vector<io::ByteRange> inside;
  for (const AddressRange& range : ranges) {
    if (range.n_bytes == 0 || !holds(range.address, 1)) continue;
    const std::uint64_t room = size_ - base_address_ - range.address;
    inside.push_back(source_range({range.address, std::min(range.n_bytes, room)}));
  }
  pages_.fetch(inside);
}

}  // namespace cellfeed::hdf5
