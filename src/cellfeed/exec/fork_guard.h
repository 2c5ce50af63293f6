// fork_guard: tells an object that the process it lives in is a fork of the one that made it.
// Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace cellfeed::exec {

// Grows by one in each forked child, before any of its code runs. An object whose threads, rings or
// locks belong to another generation must neither join, close nor lock them: they exist in the
// parent only.
std::uint64_t fork_generation();

// PerProcess<T>: a T that a forked child gets anew. The parent's T is left as it was at the fork,
// never touched or destroyed by the child, because its locks may be held by threads that are gone.
template <typename T>
class PerProcess {
 public:
  PerProcess() = default;
  ~PerProcess() {
    if (T* value = peek(); value != nullptr) delete current_.load();
  }
  PerProcess(const PerProcess&) = delete;
  PerProcess& operator=(const PerProcess&) = delete;

  // This process's T, made by make() where there is none yet; a T made in a race is destroyed.
  template <typename Make>
  T& get(Make&& make) {
    Entry* seen = current_.load(std::memory_order_acquire);
    while (seen == nullptr || seen->generation != fork_generation()) {
      auto* fresh = new Entry{fork_generation(), make()};
      if (current_.compare_exchange_strong(seen, fresh, std::memory_order_acq_rel)) {
        return fresh->value;
      }
      delete fresh;
    }
    return seen->value;
  }
  T& get() {
    return get([] { return T(); });
  }

  // Null when this process has made none.
  T* peek() {
    Entry* seen = current_.load(std::memory_order_acquire);
    return seen != nullptr && seen->generation == fork_generation() ? &seen->value : nullptr;
  }

 private:
  struct Entry {
    std::uint64_t generation;
    T value;
  };
  std::atomic<Entry*> current_{nullptr};
};

}  // namespace cellfeed::exec
