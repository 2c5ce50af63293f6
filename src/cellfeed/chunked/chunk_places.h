// ChunkPlaces: where the chunks of an array lie, as far as they were looked up: a table without
// locks, which takes memory for what is touched. Thread-safe: threads that look up one chunk at
// once write the same.
#pragma once

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <new>

namespace cellfeed::chunked {

class ChunkPlaces {
 public:
  struct Place {
    bool is_written = false;
    std::int64_t offset = 0;
    std::uint64_t length = 0;  // and what else is known of the chunk, as who sets it likes
  };

  // Throws std::bad_alloc.
  explicit ChunkPlaces(std::int64_t n_chunks)
      : slots_(static_cast<Slot*>(
            std::calloc(static_cast<std::size_t>(n_chunks > 0 ? n_chunks : 1), sizeof(Slot)))) {
    if (!slots_) throw std::bad_alloc();
  }

  bool has(std::int64_t chunk) const { return state_of(chunk) != kUnknown; }
  // REQUIRES: has(chunk).
  Place get(std::int64_t chunk) const {
    const std::uint64_t state = state_of(chunk);
    if (state == kUnwritten) return {};
    return {true, static_cast<std::int64_t>(state - kFirst),
            std::atomic_ref(slots_[chunk].length).load(std::memory_order_relaxed)};
  }
  // REQUIRES: offset >= 0.
  void set(std::int64_t chunk, const Place& place) const {
    Slot& slot = slots_[chunk];
    if (place.is_written)
      std::atomic_ref(slot.length).store(place.length, std::memory_order_relaxed);
    std::atomic_ref(slot.state)
        .store(place.is_written ? static_cast<std::uint64_t>(place.offset) + kFirst : kUnwritten,
               std::memory_order_release);
  }

 private:
  static constexpr std::uint64_t kUnknown = 0;
  static constexpr std::uint64_t kUnwritten = 1;
  static constexpr std::uint64_t kFirst = 2;  // of offset 0
  struct Slot {
    std::uint64_t state;
    std::uint64_t length;
  };
  struct Free {
    void operator()(Slot* slots) const { std::free(slots); }
  };
  std::uint64_t state_of(std::int64_t chunk) const {
    return std::atomic_ref(slots_[chunk].state).load(std::memory_order_acquire);
  }

  // Of zeros that the system gives out when they are written to.
  std::unique_ptr<Slot[], Free> slots_;
};

}  // namespace cellfeed::chunked
