// Buffer<T>: an owned, 64-byte aligned, uninitialised array with room to over-read. Large ones ask
// for huge pages, unless their memory comes from elsewhere. Move-only. Not thread-safe while being
// resized; disjoint elements may be written by several threads.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <utility>

namespace cellfeed::matrix {

// Bytes past the end that vector kernels may read or write; never part of size().
inline constexpr std::size_t kPaddingBytes = 64;

// Where the memory of a buffer comes from when it is not the system's, such as page-locked memory.
// Thread-safe. Lifetime: shared by its buffers.
class BufferMemory {
 public:
  struct Block {
    void* data = nullptr;
    void* handle = nullptr;  // the implementation's own
  };
  virtual ~BufferMemory() = default;
  virtual Block allocate(std::size_t bytes) = 0;  // aligned to 64 bytes; throws
  virtual void free(const Block& block) noexcept = 0;
  // What allocate(bytes) really takes.
  virtual std::size_t taken_bytes(std::size_t bytes) const = 0;
};

// What a buffer of so many bytes takes of the system's memory, padding aside.
std::size_t block_bytes(std::size_t bytes);
// What fits in the block that a buffer of so many bytes gets.
std::size_t usable_bytes(std::size_t bytes);

// From `memory`, or from the system where that is null. Throws std::bad_alloc, and what memory
// throws.
BufferMemory::Block allocate_block(std::size_t bytes, BufferMemory* memory);
void free_block(const BufferMemory::Block& block, std::size_t bytes, BufferMemory* memory) noexcept;

template <typename T>
class Buffer {
 public:
  Buffer() = default;
  explicit Buffer(std::size_t size, std::shared_ptr<BufferMemory> memory = nullptr)
      : memory_(std::move(memory)) {
    reset(size);
  }
  Buffer(Buffer&& other) noexcept
      : memory_(std::move(other.memory_)),
        data_(std::exchange(other.data_, nullptr)),
        handle_(std::exchange(other.handle_, nullptr)),
        size_(std::exchange(other.size_, 0)),
        capacity_(std::exchange(other.capacity_, 0)) {}
  Buffer& operator=(Buffer&& other) noexcept {
    std::swap(memory_, other.memory_);
    std::swap(data_, other.data_);
    std::swap(handle_, other.handle_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~Buffer() { release(); }

  // Makes room for size elements; contents are lost when the capacity grows.
  void reset(std::size_t size) {
    if (size > capacity_) {
      release();
      const auto block = allocate_block(size * sizeof(T), memory_.get());
      data_ = static_cast<T*>(block.data);
      handle_ = block.handle;
      // Of the system's memory all that the block takes is there to be used.
      capacity_ = memory_ ? size : usable_bytes(size * sizeof(T)) / sizeof(T);
    }
    size_ = size;
  }
  // Shortens without giving memory back. REQUIRES: size <= size().
  void shrink(std::size_t size) { size_ = size; }

  T* data() { return data_; }
  const T* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity_bytes() const { return capacity_ * sizeof(T); }
  // The block's, of the memory it comes from; null for the system's.
  void* handle() const { return handle_; }
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
    if (data_ != nullptr) free_block({data_, handle_}, capacity_ * sizeof(T), memory_.get());
    data_ = nullptr;
    handle_ = nullptr;
    size_ = capacity_ = 0;
  }
  std::shared_ptr<BufferMemory> memory_;
  T* data_ = nullptr;
  void* handle_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace cellfeed::matrix
