#include "cellfeed/io/read_buffer.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/base/huge_pages.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::io {
namespace {

constexpr std::size_t kPageBytes = 4096;
constexpr std::size_t kSlabBytes = 4 * kHugePageBytes;
// Kept for the next buffers when nobody uses them.
constexpr std::size_t kMaxIdleBytes = std::size_t{64} << 20;

struct Memory {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
};

// REQUIRES: bytes is a multiple of huge pages.
Memory map_memory(std::size_t bytes) {
  auto* data = static_cast<std::byte*>(map_huge_pages(bytes, MAP_NORESERVE));
  // A forked child does not get the pages: a device that writes to them while the process forks
  // would else write to pages that the parent has no longer.
  if (::madvise(data, bytes, MADV_DONTFORK) != 0) {
    const int error_number = errno;
    ::munmap(data, bytes);
    throw_errno(error_number, {}, "keep a read buffer from forked children");
  }
  return {data, bytes};
}

void unmap(const Memory& memory) { ::munmap(memory.data, memory.bytes); }

// What no buffer uses. Slabs come back from any thread, and after a fork to nobody.
class IdleMemory {
 public:
  Memory take(std::size_t bytes) {
    {
      const std::lock_guard lock(mutex_);
      const auto fits = std::ranges::find_if(idle_, [bytes](const Memory& memory) {
        return memory.bytes >= bytes && memory.bytes <= 2 * bytes;
      });
      if (fits != idle_.end()) {
        const Memory memory = *fits;
        idle_.erase(fits);
        idle_bytes_ -= memory.bytes;
        return memory;
      }
    }
    return map_memory(bytes);
  }

  void give_back(const Memory& memory) noexcept {
    {
      const std::lock_guard lock(mutex_);
      if (idle_bytes_ + memory.bytes <= kMaxIdleBytes && idle_.size() < idle_.capacity()) {
        idle_.push_back(memory);
        idle_bytes_ += memory.bytes;
        return;
      }
    }
    unmap(memory);
  }

  IdleMemory() { idle_.reserve(kMaxIdleBytes / kHugePageBytes); }

 private:
  std::mutex mutex_;  // guards what follows
  std::vector<Memory> idle_;
  std::size_t idle_bytes_ = 0;
};

// Cut from front to back; goes back to the idle ones when its last buffer goes.
class Slab {
 public:
  Slab(const std::shared_ptr<IdleMemory>& idle, std::size_t bytes)
      : idle_(idle), memory_(idle->take(bytes)) {}
  ~Slab() {
    // A forked child has not got the memory, and must not wait for the parent's lock.
    if (exec::fork_generation() == generation_) idle_->give_back(memory_);
  }
  Slab(const Slab&) = delete;
  Slab& operator=(const Slab&) = delete;

  // Null where there is no room.
  std::byte* cut(std::size_t bytes) {
    if (bytes > memory_.bytes - used_) return nullptr;
    std::byte* data = memory_.data + used_;
    used_ += bytes;
    return data;
  }

 private:
  const std::shared_ptr<IdleMemory> idle_;
  const Memory memory_;
  const std::uint64_t generation_ = exec::fork_generation();
  std::size_t used_ = 0;
};

struct Slabs {
  std::mutex mutex;  // guards what follows
  std::shared_ptr<IdleMemory> idle = std::make_shared<IdleMemory>();
  std::weak_ptr<Slab> current;
};

Slabs& slabs() {
  // Never destroyed: buffers may go at the very end.
  static auto& all = *new exec::PerProcess<std::unique_ptr<Slabs>>();
  return *all.get([] { return std::make_unique<Slabs>(); });
}

}  // namespace

std::size_t ReadBuffer::planned_capacity(std::size_t bytes) {
  return round_up(bytes + kReadPaddingBytes, kPageBytes);
}

ReadBuffer::ReadBuffer(std::size_t bytes) : capacity_(planned_capacity(bytes)) {
  Slabs& all = slabs();
  const std::lock_guard lock(all.mutex);
  std::shared_ptr<Slab> slab = all.current.lock();
  data_ = slab ? slab->cut(capacity_) : nullptr;
  if (data_ == nullptr) {
    const std::size_t wanted = std::max(round_up(capacity_, kHugePageBytes), kSlabBytes);
    slab = std::make_shared<Slab>(all.idle, wanted);
    data_ = slab->cut(capacity_);
    all.current = slab;
  }
  slab_ = std::move(slab);
}

}  // namespace cellfeed::io
