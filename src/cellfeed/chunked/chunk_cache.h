// ChunkCache: inflated chunks of one file, never more than a number of bytes, with the memory that
// waits for the next chunks. Arrays that fit are kept whole; of others the chunks least recently
// used are dropped first. Thread-safe. A forked child starts with an empty cache.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "cellfeed/chunked/inflated_array.h"

namespace cellfeed::chunked {

struct InflatedChunk {
  explicit InflatedChunk(std::size_t n) : bytes(n), size(n) {}
  std::int64_t memory_bytes() const { return static_cast<std::int64_t>(matrix::block_bytes(size)); }
  matrix::Buffer<std::byte> bytes;
  std::size_t size;
};

// Which array of the file, and which of its chunks.
struct ChunkKey {
  std::int32_t array = 0;
  std::int64_t chunk = 0;
  bool operator==(const ChunkKey&) const = default;
  auto operator<=>(const ChunkKey&) const = default;
};

// A compressed array; its position among the file's is its number.
struct CachedArray {
  std::int64_t n_chunks = 0;
  std::int64_t chunk_bytes = 0;
};

class ChunkCache {
 public:
  explicit ChunkCache(std::int64_t capacity_bytes, std::vector<CachedArray> arrays = {});
  // Of chunks that are in no array; all_bytes: what memory they take together.
  ChunkCache(std::int64_t capacity_bytes, std::int64_t all_bytes);
  ~ChunkCache();
  // The array with room for all its chunks; null where the capacity does not hold every array.
  // Whoever has it keeps it, also when the capacity is lowered.
  std::shared_ptr<InflatedArray> whole(std::int32_t array) const;
  bool keeps_whole() const { return !arrays_.empty() && all_bytes_ <= capacity_bytes_; }

  // The rest is for arrays that are not kept whole. Null when it is not held. Whoever holds on to
  // it keeps its memory when it is dropped here: for no longer than a copy takes.
  std::shared_ptr<const InflatedChunk> find(const ChunkKey& key) const;
  // A chunk to inflate into: one that was dropped before, where there is one of this size.
  std::shared_ptr<InflatedChunk> make_chunk(std::size_t bytes) const;
  void insert(const ChunkKey& key, std::shared_ptr<InflatedChunk> chunk) const;
  // Drops what no longer fits.
  void set_capacity(std::int64_t capacity_bytes) const;
  std::int64_t bytes_held() const;

 private:
  struct State;
  State& state() const;
  const std::vector<CachedArray> arrays_;
  const std::int64_t all_bytes_;  // the largest number where the arrays are not known
  mutable std::atomic<std::int64_t> capacity_bytes_;
  mutable std::atomic<State*> state_;
};

}  // namespace cellfeed::chunked
