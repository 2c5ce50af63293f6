// Metadata bytes by address: views of a map, or pages read many at once and kept.
#include "cellfeed/hdf5/file_bytes.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "cellfeed/base/error.h"

namespace cellfeed::hdf5 {

FileBytes::FileBytes(std::shared_ptr<const io::ByteSource> source, FileBytesOptions options)
    : source_(std::move(source)),
      size_(static_cast<std::uint64_t>(source_->size())),
      page_bytes_(static_cast<std::uint64_t>(options.page_bytes)),
      max_pages_(static_cast<std::size_t>(
          std::max(options.kept_bytes / options.page_bytes, std::int64_t{2}))) {}

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
  const std::uint64_t offset = base_address_ + address;
  if (const auto map = source_->map(); !map.empty())
    return {map.subspan(static_cast<std::size_t>(offset), static_cast<std::size_t>(n_bytes)),
            source_};
  if (n_bytes == 0) return {};
  return read_through_pages(offset, n_bytes);
}

Bytes FileBytes::read_through_pages(std::uint64_t offset, std::uint64_t n_bytes) const {
  const std::uint64_t first = offset / page_bytes_;
  const std::uint64_t last = (offset + n_bytes - 1) / page_bytes_;
  // What is larger than half of what is kept would push out all else.
  if (last - first + 1 > max_pages_ / 2) {
    auto owned = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(n_bytes));
    source_->read(static_cast<std::int64_t>(offset), *owned);
    return {*owned, owned};
  }
  std::vector<Page> pages;
  std::vector<std::uint64_t> missing;
  for (std::uint64_t number = first; number <= last; ++number) {
    pages.push_back(find_page(number));
    if (!pages.back()) missing.push_back(number);
  }
  const std::vector<Page> found = read_pages(missing);
  for (std::size_t i = 0; i < missing.size(); ++i)
    pages[static_cast<std::size_t>(missing[i] - first)] = found[i];
  const std::uint64_t skipped = offset - first * page_bytes_;
  if (first == last)
    return {std::span(*pages.front())
                .subspan(static_cast<std::size_t>(skipped), static_cast<std::size_t>(n_bytes)),
            pages.front()};
  auto owned = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(n_bytes));
  std::size_t filled = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto piece = std::span(*pages[i]).subspan(i == 0 ? static_cast<std::size_t>(skipped) : 0);
    const std::size_t n = std::min(piece.size(), owned->size() - filled);
    std::memcpy(owned->data() + filled, piece.data(), n);
    filled += n;
  }
  return {*owned, owned};
}

std::vector<Bytes> FileBytes::read_many(std::span<const AddressRange> ranges) const {
  for (const AddressRange& range : ranges) check(range.address, range.n_bytes);
  std::vector<Bytes> read_bytes;
  if (!source_->map().empty()) {
    for (const AddressRange& range : ranges)
      read_bytes.push_back(read(range.address, range.n_bytes));
    return read_bytes;
  }
  std::vector<io::ReadRequest> requests;
  for (const AddressRange& range : ranges) {
    const std::uint64_t offset = base_address_ + range.address;
    if (range.n_bytes == 0 || is_kept(offset, range.n_bytes)) {
      read_bytes.push_back(read(range.address, range.n_bytes));
      continue;
    }
    auto owned = std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(range.n_bytes));
    requests.push_back({static_cast<std::int64_t>(offset), *owned});
    read_bytes.emplace_back(*owned, owned);
  }
  if (requests.empty()) return read_bytes;
  source_->read_many(requests);
  return read_bytes;
}

void FileBytes::fetch(std::span<const AddressRange> ranges) const {
  if (!source_->map().empty()) return;
  std::vector<std::uint64_t> numbers;
  for (const AddressRange& range : ranges) {
    if (range.n_bytes == 0 || !holds(range.address, 1)) continue;
    const std::uint64_t offset = base_address_ + range.address;
    const std::uint64_t n_bytes = std::min(range.n_bytes, size_ - offset);
    const std::uint64_t last = (offset + n_bytes - 1) / page_bytes_;
    for (std::uint64_t number = offset / page_bytes_; number <= last; ++number) {
      if (numbers.size() >= max_pages_ / 2) break;
      if (!find_page(number)) numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  read_pages(numbers);
}

bool FileBytes::is_kept(std::uint64_t offset, std::uint64_t n_bytes) const {
  const std::uint64_t last = (offset + n_bytes - 1) / page_bytes_;
  for (std::uint64_t number = offset / page_bytes_; number <= last; ++number)
    if (!find_page(number)) return false;
  return true;
}

std::int64_t FileBytes::page_length(std::uint64_t number) const {
  return static_cast<std::int64_t>(std::min(page_bytes_, size_ - number * page_bytes_));
}

std::vector<FileBytes::Page> FileBytes::read_pages(std::span<const std::uint64_t> numbers) const {
  if (numbers.empty()) return {};
  std::vector<Page> pages;
  std::vector<io::ReadRequest> requests;
  for (const std::uint64_t number : numbers) {
    auto page =
        std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(page_length(number)));
    requests.push_back({static_cast<std::int64_t>(number * page_bytes_), *page});
    pages.push_back(std::move(page));
  }
  source_->read_many(requests);
  for (std::size_t i = 0; i < numbers.size(); ++i) keep_page(numbers[i], pages[i]);
  return pages;
}

FileBytes::Page FileBytes::find_page(std::uint64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pages_.find(number);
  if (found == pages_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.page;
}

void FileBytes::keep_page(std::uint64_t number, Page page) const {
  const std::scoped_lock lock(mutex_);
  const auto [place, is_new] = pages_.try_emplace(number);
  if (!is_new) return;
  uses_.push_front(number);
  place->second = {std::move(page), uses_.begin()};
  if (pages_.size() <= max_pages_) return;
  pages_.erase(uses_.back());
  uses_.pop_back();
}

}  // namespace cellfeed::hdf5
