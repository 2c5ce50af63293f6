// ChunkCache: a list in order of use and a map into it, under one lock held for a look-up only.
#include "cellfeed/format/h5ad/chunk_cache.h"

#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::format::h5ad {
namespace {

struct KeyHash {
  std::size_t operator()(const ChunkKey& key) const {
    return std::hash<std::int64_t>{}((key.chunk << 3) ^ key.array) * 0x9e3779b97f4a7c15u;
  }
};

using Entry = std::pair<ChunkKey, std::shared_ptr<const InflatedChunk>>;

}  // namespace

struct ChunkCache::State {
  std::uint64_t generation = exec::fork_generation();
  std::mutex mutex;
  std::list<Entry> by_use;  // most recent first
  std::unordered_map<ChunkKey, std::list<Entry>::iterator, KeyHash> entries;
  std::int64_t bytes = 0;

  // Takes out the least recently used until `limit` is kept; the caller frees them, after the lock.
  std::list<Entry> drop_above(std::int64_t limit) {
    std::list<Entry> dropped;
    while (bytes > limit) {
      const auto last = std::prev(by_use.end());
      bytes -= static_cast<std::int64_t>(last->second->size);
      entries.erase(last->first);
      dropped.splice(dropped.end(), by_use, last);
    }
    return dropped;
  }
};

ChunkCache::ChunkCache(std::int64_t capacity_bytes)
    : capacity_bytes_(capacity_bytes), state_(new State) {}

ChunkCache::~ChunkCache() {
  State* state = state_.load();
  if (state->generation == exec::fork_generation()) delete state;
}

ChunkCache::State& ChunkCache::state() const {
  State* current = state_.load(std::memory_order_acquire);
  if (current->generation == exec::fork_generation()) return *current;
  // The parent's lock may have been held at the fork: leave it, with what it guards, alone.
  auto fresh = std::make_unique<State>();
  if (state_.compare_exchange_strong(current, fresh.get())) return *fresh.release();
  return *current;
}

std::shared_ptr<const InflatedChunk> ChunkCache::find(const ChunkKey& key) const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  const auto found = state.entries.find(key);
  if (found == state.entries.end()) return nullptr;
  state.by_use.splice(state.by_use.begin(), state.by_use, found->second);
  return found->second->second;
}

void ChunkCache::insert(const ChunkKey& key, std::shared_ptr<const InflatedChunk> chunk) const {
  const auto size = static_cast<std::int64_t>(chunk->size);
  const std::int64_t capacity = capacity_bytes_;
  if (size > capacity) return;
  std::list<Entry> dropped;  // freed after the lock
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  if (state.entries.contains(key)) return;
  dropped = state.drop_above(capacity - size);
  state.by_use.emplace_front(key, std::move(chunk));
  state.entries.emplace(key, state.by_use.begin());
  state.bytes += size;
}

void ChunkCache::set_capacity(std::int64_t capacity_bytes) const {
  capacity_bytes_ = capacity_bytes;
  std::list<Entry> dropped;
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  dropped = state.drop_above(capacity_bytes);
}

std::int64_t ChunkCache::bytes_held() const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  return state.bytes;
}

}  // namespace cellfeed::format::h5ad
