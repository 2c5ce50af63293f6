// Memory of batches of windows.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/base/huge_pages.h"

namespace cellfeed::bindings {

// Buffers of batches, used again once nobody has them: fresh memory costs as much as the copy.
// Freed ones of a forked child's parent are the parent's. Thread-safe.
class WindowBuffers : public std::enable_shared_from_this<WindowBuffers> {
 public:
  std::shared_ptr<std::byte[]> take(std::size_t bytes) {
    LargeBytes found;
    {
      const std::lock_guard lock(mutex_);
      // The last one to come back is the likeliest to be in the processor's caches.
      for (std::size_t i = free_.size(); i-- > 0 && !found;)
        if (free_[i].first == bytes) {
          found = std::move(free_[i].second);
          free_.erase(free_.begin() + static_cast<std::ptrdiff_t>(i));
        }
    }
    if (!found) found = make_large_bytes(bytes);
    const FreeLargeBytes free = found.get_deleter();
    return {found.release(), [bytes, free, self = weak_from_this()](std::byte* data) {
              LargeBytes owned(data, free);
              if (const auto buffers = self.lock()) buffers->give_back(bytes, std::move(owned));
            }};
  }

 private:
  static constexpr std::size_t kKept = 9;  // x, y and future of three groups of batches
  void give_back(std::size_t bytes, LargeBytes data) {
    const std::lock_guard lock(mutex_);
    if (free_.size() == kKept) free_.erase(free_.begin());
    free_.emplace_back(bytes, std::move(data));
  }

  ForkSafeMutex mutex_;
  std::vector<std::pair<std::size_t, LargeBytes>> free_;  // guarded by mutex_
};

}  // namespace cellfeed::bindings
