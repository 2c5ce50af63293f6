// ReadBuffer: memory that reads land in, cut from slabs of huge pages that are used again and
// again: a read meets pages that are there, which costs the kernel less than clearing fresh ones.
// Thread-safe: buffers may come and go on any thread; one buffer belongs to one owner. A forked
// child has not got their memory.
#pragma once

#include <cstddef>
#include <memory>
#include <utility>

namespace cellfeed::io {

// Bytes past the end that may be read, and hold anything.
inline constexpr std::size_t kReadPaddingBytes = 64;

class ReadBuffer {
 public:
  ReadBuffer() = default;
  // Uninitialised; begins at a multiple of 4096. Throws std::bad_alloc.
  explicit ReadBuffer(std::size_t bytes);
  ReadBuffer(ReadBuffer&& other) noexcept
      : slab_(std::move(other.slab_)),
        data_(std::exchange(other.data_, nullptr)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  ReadBuffer& operator=(ReadBuffer&& other) noexcept {
    slab_ = std::move(other.slab_);
    data_ = std::exchange(other.data_, nullptr);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  std::byte* data() const { return data_; }
  // What it takes up, padding and rounding included.
  std::size_t capacity_bytes() const { return capacity_; }
  // The most that a buffer of so many bytes takes up.
  static std::size_t planned_capacity(std::size_t bytes);

 private:
  std::shared_ptr<void> slab_;
  std::byte* data_ = nullptr;
  std::size_t capacity_ = 0;
};

}  // namespace cellfeed::io
