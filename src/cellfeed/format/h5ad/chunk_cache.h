// ChunkCache: inflated chunks of one file, the least recently used dropped first, never more than a
// number of bytes. Thread-safe. A forked child starts with an empty cache.
#pragma once

#include <atomic>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace cellfeed::format::h5ad {

struct InflatedChunk {
  explicit InflatedChunk(std::size_t n)
      : bytes(std::make_unique_for_overwrite<std::byte[]>(n)), size(n) {}
  std::unique_ptr<std::byte[]> bytes;
  std::size_t size;
};

// Which array of the file, and which of its chunks.
struct ChunkKey {
  std::int32_t array = 0;
  std::int64_t chunk = 0;
  bool operator==(const ChunkKey&) const = default;
  auto operator<=>(const ChunkKey&) const = default;
};

class ChunkCache {
 public:
  explicit ChunkCache(std::int64_t capacity_bytes);
  ~ChunkCache();
  // Null when it is not held.
  std::shared_ptr<const InflatedChunk> find(const ChunkKey& key) const;
  void insert(const ChunkKey& key, std::shared_ptr<const InflatedChunk> chunk) const;
  // Drops what no longer fits.
  void set_capacity(std::int64_t capacity_bytes) const;
  std::int64_t bytes_held() const;

 private:
  struct State;
  State& state() const;
  mutable std::atomic<std::int64_t> capacity_bytes_;
  mutable std::atomic<State*> state_;
};

}  // namespace cellfeed::format::h5ad
