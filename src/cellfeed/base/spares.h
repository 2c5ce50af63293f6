// Spares<T>: objects whose memory is used again, so that large pages are not asked for and given
// back all the time. Holds as many as were in use at once, or `most`. Thread-safe.
#pragma once

#include <cstddef>
#include <limits>
#include <mutex>
#include <utility>
#include <vector>

namespace cellfeed {

template <typename T>
class Spares {
 public:
  explicit Spares(std::size_t most = std::numeric_limits<std::size_t>::max()) : most_(most) {}

  // One that was given, or a new one.
  T take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return T();
    T spare = std::move(free_.back());
    free_.pop_back();
    return spare;
  }

  void give(T spare) {
    const std::lock_guard lock(mutex_);
    if (free_.size() < most_) free_.push_back(std::move(spare));
  }

 private:
  const std::size_t most_;
  std::mutex mutex_;  // guards free_
  std::vector<T> free_;
};

}  // namespace cellfeed
