#include "cellfeed/io/page_cache.h"

#include <algorithm>
#include <cstring>
#include <mutex>

#include "cellfeed/io/range_reads.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kUsualPageBytes = 16 << 10;
constexpr std::int64_t kLeastPages = 2;
// Of a source of which each costs a round trip.
constexpr std::int64_t kLeastDearPages = 512;

std::shared_ptr<std::vector<std::byte>> make_bytes(std::int64_t n) {
  return std::make_shared<std::vector<std::byte>>(static_cast<std::size_t>(n));
}

// A buffer of reads is nothing that a forked child has.
std::shared_ptr<const std::vector<std::byte>> copy_of(std::span<const std::byte> bytes) {
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

std::int64_t page_bytes_of(const PageCacheOptions& options, const ByteSource& source) {
  if (options.page_bytes > 0) return options.page_bytes;
  return source.costs().page_bytes > 0 ? source.costs().page_bytes : kUsualPageBytes;
}

}  // namespace

PageCache::PageCache(std::shared_ptr<const ByteSource> source, PageCacheOptions options)
    : source_(std::move(source)),
      page_bytes_(page_bytes_of(options, *source_)),
      max_pages_(static_cast<std::size_t>(
          std::max(options.kept_bytes / page_bytes_,
                   source_->costs().page_bytes > 0 ? kLeastDearPages : kLeastPages))) {}

Bytes PageCache::read(ByteRange range) const {
  if (const auto map = source_->map(); !map.empty())
    return {
        map.subspan(static_cast<std::size_t>(range.offset), static_cast<std::size_t>(range.length)),
        source_};
  if (range.length == 0) return {};
  return read_through_pages(range);
}

Bytes PageCache::read_through_pages(ByteRange range) const {
  const std::int64_t first = range.offset / page_bytes_;
  const std::int64_t last = (range.offset + range.length - 1) / page_bytes_;
  // What is larger than half of what is kept would push out all else.
  if (last - first + 1 > static_cast<std::int64_t>(max_pages_ / 2)) {
    auto owned = make_bytes(range.length);
    source_->read(range.offset, *owned);
    return {*owned, owned};
  }
  std::vector<Page> pages;
  std::vector<std::int64_t> missing;
  for (std::int64_t number = first; number <= last; ++number) {
    pages.push_back(find_page(number));
    if (!pages.back()) missing.push_back(number);
  }
  const std::vector<Page> found = read_pages(missing);
  for (std::size_t i = 0; i < missing.size(); ++i)
    pages[static_cast<std::size_t>(missing[i] - first)] = found[i];
  const auto skipped = static_cast<std::size_t>(range.offset - first * page_bytes_);
  if (first == last)
    return {std::span(*pages.front()).subspan(skipped, static_cast<std::size_t>(range.length)),
            pages.front()};
  auto owned = make_bytes(range.length);
  std::size_t filled = 0;
  for (std::size_t i = 0; i < pages.size(); ++i) {
    const auto piece = std::span(*pages[i]).subspan(i == 0 ? skipped : 0);
    const std::size_t n = std::min(piece.size(), owned->size() - filled);
    std::memcpy(owned->data() + filled, piece.data(), n);
    filled += n;
  }
  return {*owned, owned};
}

std::vector<Bytes> PageCache::read_many(std::span<const ByteRange> ranges) const {
  std::vector<Bytes> found;
  const bool is_mapped = !source_->map().empty();
  RangeReads reads;
  std::vector<std::size_t> unread;
  for (const ByteRange& range : ranges) {
    if (is_mapped || range.length == 0 || is_kept(range)) {
      found.push_back(read(range));
      continue;
    }
    unread.push_back(found.size());
    found.emplace_back();
    reads.add(*source_, range);
  }
  if (unread.empty()) return found;
  reads.begin();
  reads.wait();
  for (std::size_t i = 0; i < unread.size(); ++i) {
    const Page owned = copy_of(reads.bytes(i));
    found[unread[i]] = {*owned, owned};
  }
  return found;
}

void PageCache::fetch(std::span<const ByteRange> ranges) const {
  if (!source_->map().empty()) return;
  std::vector<std::int64_t> numbers;
  for (const ByteRange& range : ranges) {
    if (range.length == 0) continue;
    const std::int64_t last = (range.offset + range.length - 1) / page_bytes_;
    for (std::int64_t number = range.offset / page_bytes_; number <= last; ++number) {
      if (numbers.size() >= max_pages_ / 2) break;
      // Ranges that follow one another share pages.
      if (!numbers.empty() && numbers.back() == number) continue;
      if (!find_page(number)) numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  numbers.erase(std::unique(numbers.begin(), numbers.end()), numbers.end());
  read_pages(numbers);
}

bool PageCache::is_kept(ByteRange range) const {
  const std::int64_t last = (range.offset + range.length - 1) / page_bytes_;
  for (std::int64_t number = range.offset / page_bytes_; number <= last; ++number)
    if (!find_page(number)) return false;
  return true;
}

std::vector<PageCache::Page> PageCache::read_pages(std::span<const std::int64_t> numbers) const {
  if (numbers.empty()) return {};
  RangeReads reads;
  for (const std::int64_t number : numbers) {
    const std::int64_t begin = number * page_bytes_;
    reads.add(*source_, {begin, std::min(page_bytes_, source_->size() - begin)});
  }
  reads.begin();
  reads.wait();
  std::vector<Page> pages;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    pages.push_back(copy_of(reads.bytes(i)));
    keep_page(numbers[i], pages.back());
  }
  return pages;
}

PageCache::Page PageCache::find_page(std::int64_t number) const {
  const std::scoped_lock lock(mutex_);
  const auto found = pages_.find(number);
  if (found == pages_.end()) return nullptr;
  uses_.splice(uses_.begin(), uses_, found->second.use);
  return found->second.page;
}

void PageCache::keep_page(std::int64_t number, Page page) const {
  const std::scoped_lock lock(mutex_);
  const auto [place, is_new] = pages_.try_emplace(number);
  if (!is_new) return;
  uses_.push_front(number);
  place->second = {std::move(page), uses_.begin()};
  if (pages_.size() <= max_pages_) return;
  pages_.erase(uses_.back());
  uses_.pop_back();
}

}  // namespace cellfeed::io
