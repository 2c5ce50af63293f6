// Buffer<T>: an owned, 64-byte aligned, uninitialised array with room to over-read; large ones ask
// for huge pages. Move-only. Not thread-safe while being resized; disjoint elements may be written
// by several threads.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

namespace cellfeed::matrix {

// Bytes past the end that vector kernels may read or write; never part of size().
inline constexpr std::size_t kPaddingBytes = 64;

void* allocate_aligned(std::size_t bytes);  // throws std::bad_alloc
void free_aligned(void* data, std::size_t bytes) noexcept;

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size) { reset(size); }
  Buffer(Buffer&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer() { release(); }

  // Makes room for size elements; contents are lost when the capacity grows.
  void reset(std::size_t size) {
    if (size > capacity_) {
      release();
      data_ = static_cast<T*>(allocate_aligned(size * sizeof(T)));
      capacity_ = size;
    }
    size_ = size;
  }
  // Shortens without giving memory back. REQUIRES: size <= size().
  void shrink(std::size_t size) { size_ = size; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }
  T& operator[](std::size_t i) { return data_[i]; }
  const T& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<const T> span() const { return {data_, size_}; }
  T* begin() { return data_; }
  T* end() { return data_ + size_; }
  const T* begin() const { return data_; }
  const T* end() const { return data_ + size_; }

 private:
  void release() noexcept {
    if (data_ != nullptr) free_aligned(data_, capacity_ * sizeof(T));
    data_ = nullptr;
    size_ = capacity_ = 0;
  }
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cellfeed::matrix
