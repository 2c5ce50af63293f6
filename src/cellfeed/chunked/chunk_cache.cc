// ChunkCache: a list in order of use and a map into it, under one lock held for a look-up only.
#include "cellfeed/chunked/chunk_cache.h"

#include <algorithm>
#include <limits>
#include <list>
#include <mutex>
#include <unordered_map>
#include <utility>

#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::chunked {
namespace {

using Entry = std::pair<ChunkKey, std::shared_ptr<InflatedChunk>>;

// Chunks that wait to be used again: about one a thread that inflates, and of the capacity one part
// in four at most.
constexpr std::size_t kMaxSpare = 16;
constexpr std::int64_t kSparePart = 4;

std::int64_t bytes_of(const std::vector<CachedArray>& arrays) {
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t bytes = 0;
  for (const CachedArray& array : arrays) {
    if (array.chunk_bytes > 0 && array.n_chunks > (kMax - bytes) / array.chunk_bytes) return kMax;
    bytes += array.n_chunks * array.chunk_bytes;
  }
  return arrays.empty() ? kMax : bytes;
}

}  // namespace

struct ChunkCache::State {
  struct KeyHash {
    std::size_t operator()(const ChunkKey& key) const {
      return std::hash<std::int64_t>{}((key.chunk << 3) ^ key.array) * 0x9e3779b97f4a7c15u;
    }
  };

  std::uint64_t generation = exec::fork_generation();
  std::mutex mutex;         // guards what follows
  std::list<Entry> by_use;  // most recent first
  std::unordered_map<ChunkKey, std::list<Entry>::iterator, KeyHash> entries;
  std::int64_t bytes = 0;
  std::vector<std::shared_ptr<InflatedChunk>> spare;
  std::int64_t spare_bytes = 0;
  std::vector<std::shared_ptr<InflatedArray>> whole;  // made when first asked for

  // Takes out the least recently used until `limit` is kept; the caller frees them, after the lock.
  std::list<Entry> drop_above(std::int64_t limit) {
    std::list<Entry> dropped;
    while (bytes > limit) {
      const auto last = std::prev(by_use.end());
      bytes -= last->second->memory_bytes();
      entries.erase(last->first);
      dropped.splice(dropped.end(), by_use, last);
    }
    return dropped;
  }
};

ChunkCache::ChunkCache(std::int64_t capacity_bytes, std::vector<CachedArray> arrays)
    : arrays_(std::move(arrays)),
      all_bytes_(bytes_of(arrays_)),
      capacity_bytes_(capacity_bytes),
      state_(new State) {}

ChunkCache::ChunkCache(std::int64_t capacity_bytes, std::int64_t all_bytes)
    : all_bytes_(all_bytes), capacity_bytes_(capacity_bytes), state_(new State) {}

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

std::shared_ptr<InflatedArray> ChunkCache::whole(std::int32_t array) const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  if (!keeps_whole()) return nullptr;
  state.whole.resize(arrays_.size());
  std::shared_ptr<InflatedArray>& whole = state.whole.at(static_cast<std::size_t>(array));
  if (!whole) {
    const CachedArray& layout = arrays_[static_cast<std::size_t>(array)];
    whole = std::make_shared<InflatedArray>(layout.n_chunks, layout.chunk_bytes);
  }
  return whole;
}

std::shared_ptr<const InflatedChunk> ChunkCache::find(const ChunkKey& key) const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  const auto found = state.entries.find(key);
  if (found == state.entries.end()) return nullptr;
  state.by_use.splice(state.by_use.begin(), state.by_use, found->second);
  return found->second->second;
}

std::shared_ptr<InflatedChunk> ChunkCache::make_chunk(std::size_t bytes) const {
  {
    State& state = this->state();
    const std::lock_guard lock(state.mutex);
    for (auto& spare : state.spare)
      if (spare->size == bytes) {
        std::swap(spare, state.spare.back());
        auto chunk = std::move(state.spare.back());
        state.spare.pop_back();
        state.spare_bytes -= chunk->memory_bytes();
        return chunk;
      }
  }
  return std::make_shared<InflatedChunk>(bytes);
}

void ChunkCache::insert(const ChunkKey& key, std::shared_ptr<InflatedChunk> chunk) const {
  const std::int64_t size = chunk->memory_bytes();
  std::list<Entry> dropped;  // freed after the lock
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  const std::int64_t capacity = keeps_whole() ? 0 : capacity_bytes_.load();
  // Where all fits, none is dropped.
  const std::int64_t for_spare =
      all_bytes_ <= capacity
          ? 0
          : std::min(capacity / kSparePart, static_cast<std::int64_t>(kMaxSpare) * size);
  if (size > capacity - for_spare || state.entries.contains(key)) {
    dropped.emplace_back(key, std::move(chunk));
  } else {
    dropped = state.drop_above(capacity - for_spare - size);
    state.by_use.emplace_front(key, std::move(chunk));
    state.entries.emplace(key, state.by_use.begin());
    state.bytes += size;
  }
  for (Entry& entry : dropped) {
    const std::int64_t bytes = entry.second->memory_bytes();
    if (entry.second.use_count() != 1 || state.spare.size() >= kMaxSpare ||
        state.bytes + state.spare_bytes + bytes > capacity)
      continue;
    state.spare.push_back(entry.second);
    // use_count() is relaxed. Releasing one of two references makes what the last reader did happen
    // before the chunk is reused.
    entry.second.reset();
    state.spare_bytes += bytes;
  }
}

void ChunkCache::set_capacity(std::int64_t capacity_bytes) const {
  std::list<Entry> dropped;
  std::vector<std::shared_ptr<InflatedArray>> dropped_arrays;
  std::vector<std::shared_ptr<InflatedChunk>> dropped_spare;
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  capacity_bytes_ = capacity_bytes;
  if (!keeps_whole()) dropped_arrays.swap(state.whole);
  dropped_spare.swap(state.spare);
  state.spare_bytes = 0;
  dropped = state.drop_above(keeps_whole() ? 0 : capacity_bytes);
}

std::int64_t ChunkCache::bytes_held() const {
  State& state = this->state();
  const std::lock_guard lock(state.mutex);
  std::int64_t bytes = state.bytes + state.spare_bytes;
  for (std::size_t i = 0; i < state.whole.size(); ++i)
    if (state.whole[i]) bytes += arrays_[i].n_chunks * arrays_[i].chunk_bytes;
  return bytes;
}

}  // namespace cellfeed::chunked
