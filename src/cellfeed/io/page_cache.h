// PageCache: bytes of a source that has no map(), read in pages, many at once, and kept within a
// bound. Of a source that has one, views of it. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/io/byte_source.h"

namespace cellfeed::io {

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

struct PageCacheOptions {
  // Unit of reading and keeping; 0: as the source's costs say, else 16 KiB. More costs bytes on a
  // slow store, less costs round trips.
  std::int64_t page_bytes = 0;
  // Pages kept at most; the least recently used one goes first.
  std::int64_t kept_bytes = 8 << 20;
};

class PageCache {
 public:
  explicit PageCache(std::shared_ptr<const ByteSource> source, PageCacheOptions options = {});

  const std::shared_ptr<const ByteSource>& source() const { return source_; }
  // REQUIRES, of all ranges: inside the source.
  Bytes read(ByteRange range) const;
  // Each of the ranges, those that are not there in one round trip; none is kept.
  std::vector<Bytes> read_many(std::span<const ByteRange> ranges) const;
  // Reads what is not there yet of all ranges in one round trip, so that reading them next waits
  // for nothing. A hint: what exceeds half of what is kept is left out. Does nothing where the
  // source has a map().
  void fetch(std::span<const ByteRange> ranges) const;

 private:
  using Page = std::shared_ptr<const std::vector<std::byte>>;
  struct KeptPage {
    Page page;
    std::list<std::int64_t>::iterator use;
  };

  bool is_kept(ByteRange range) const;
  Page find_page(std::int64_t number) const;
  void keep_page(std::int64_t number, Page page) const;
  // Reads these pages, ascending, in one round trip; keeps and returns them.
  std::vector<Page> read_pages(std::span<const std::int64_t> numbers) const;
  Bytes read_through_pages(ByteRange range) const;

  const std::shared_ptr<const ByteSource> source_;
  const std::int64_t page_bytes_;
  const std::size_t max_pages_;

  mutable ForkSafeMutex mutex_;  // guards what follows; not held while reading
  mutable std::unordered_map<std::int64_t, KeptPage> pages_;
  mutable std::list<std::int64_t> uses_;  // page numbers, the last used one first
};

}  // namespace cellfeed::io
