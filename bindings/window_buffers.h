// Memory of batches of windows.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::bindings {

// Buffers of batches, used again once nobody has them: fresh memory costs as much as the copy.
// Freed ones of a forked child's parent are the parent's. Thread-safe.
class WindowBuffers : public std::enable_shared_from_this<WindowBuffers> {
 public:
  std::shared_ptr<std::byte[]> take(std::size_t bytes) {
    std::unique_ptr<std::byte[]> found;
    {
      const std::lock_guard lock(mutex_);
      for (auto at = free_.begin(); at != free_.end() && !found; ++at)
        if (at->first == bytes) {
          found = std::move(at->second);
          free_.erase(at);
          break;
        }
    }
    if (!found) found = std::make_unique_for_overwrite<std::byte[]>(bytes);
    return {found.release(), [bytes, self = weak_from_this()](std::byte* data) {
              std::unique_ptr<std::byte[]> owned(data);
              if (const auto buffers = self.lock()) buffers->give_back(bytes, std::move(owned));
            }};
  }

 private:
  static constexpr std::size_t kKept = 32;  // x and y of two groups of batches
  void give_back(std::size_t bytes, std::unique_ptr<std::byte[]> data) {
    const std::lock_guard lock(mutex_);
    if (free_.size() == kKept) free_.erase(free_.begin());
    free_.emplace_back(bytes, std::move(data));
  }

  ForkSafeMutex mutex_;
  std::vector<std::pair<std::size_t, std::unique_ptr<std::byte[]>>> free_;  // guarded by mutex_
};

}  // namespace cellfeed::bindings
