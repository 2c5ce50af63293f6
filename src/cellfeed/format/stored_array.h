// StoredArray: an array of numbers as a file stores it, whatever its format. Thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/chunked/chunked_array.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/io/read_ahead.h"

namespace cellfeed::format {

class StoredArray : public chunked::ChunkedArray {
 public:
  virtual const StoredNumber& number() const = 0;
  DType dtype() const { return number().dtype; }
  // "none", "gzip", "shuffle+gzip".
  virtual std::string compression() const = 0;
  // What it takes on disk, as far as that is told by a few chunks; 0 where nothing is known.
  virtual std::int64_t stored_bytes() const { return 0; }
  // Throws kCorruptData where it holds others.
  void require_integers() const;

 protected:
  using ChunkedArray::ChunkedArray;
};

// The elements of some ranges as they are stored, one range after another. Their chunks are read
// together and inflated each once, or found in the cache. ahead: may be null. REQUIRES: as
// ChunkedArray::for_each_part; out is as long as all of them.
void read_elements(const chunked::ChunkedArray& array, const chunked::ChunkCache& cache,
                   std::span<const chunked::EntryRange> ranges, const io::ReadAhead* ahead,
                   std::span<std::byte> out);
// The same as 64-bit integers (those above 2^63 turn negative). REQUIRES: require_integers().
std::vector<std::int64_t> read_integers(const StoredArray& array, const chunked::ChunkCache& cache,
                                        std::span<const chunked::EntryRange> ranges,
                                        const io::ReadAhead* ahead);

}  // namespace cellfeed::format
