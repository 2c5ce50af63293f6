// RowOffsets: where the rows of a CSR matrix begin among its entries, its indptr. Read where it
// lies in the memory map; of one that is compressed, the chunks that rows need are inflated and
// kept within a budget. Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format {

class RowOffsets {
 public:
  // group: of the matrix, in the file. Reads no more of indptr than its ends, and nothing where it
  // is in chunks, so that opening takes no longer for more rows. Throws kCorruptData.
  RowOffsets(const StoredTree& file, std::string group, std::int64_t n_rows,
             std::int64_t n_entries);

  const StoredArray& array() const { return *indptr_; }
  // The entries of each row, in the order given. Throws kOutOfRange, or kCorruptData naming the row
  // and its two offsets.
  std::vector<chunked::EntryRange> entries_of(std::span<const std::int64_t> rows) const;
  // Of this memory for inflated chunks takes its part. Returns the rest.
  std::int64_t take_cache_bytes(std::int64_t bytes) const;

 private:
  // The offsets of some ranges of rows, one after another.
  std::vector<std::int64_t> read(std::span<const chunked::EntryRange> ranges) const;
  template <typename T>
  std::vector<chunked::EntryRange> mapped_entries(std::span<const std::int64_t> rows) const;
  chunked::EntryRange checked(std::int64_t row, std::int64_t begin, std::int64_t end) const;
  void check_ends() const;

  const StoredTree& file_;
  const std::string group_;
  const std::int64_t n_rows_;
  const std::int64_t n_entries_;
  const std::unique_ptr<const StoredArray> indptr_;
  const chunked::ChunkCache cache_;
  mutable std::atomic<bool> has_checked_ends_{false};
};

}  // namespace cellfeed::format
