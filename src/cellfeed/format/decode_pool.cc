#include "cellfeed/format/decode_pool.h"

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "cellfeed/base/error.h"

namespace cellfeed::format {
namespace {

// So that sums of two stay in range.
constexpr std::int64_t kMaxLimit = std::int64_t{1} << 61;

}  // namespace

class DecodePool::Pool : public arrow::MemoryPool {
 public:
  explicit Pool(std::int64_t limit_bytes) : limit_bytes_(std::min(limit_bytes, kMaxLimit)) {}

  bool has_refused() const { return has_refused_; }
  std::int64_t limit_bytes() const { return limit_bytes_; }
  void retain() { ++users_; }
  void release() {
    if (--users_ == 0) delete this;
  }

  arrow::Status Allocate(std::int64_t size, std::int64_t alignment, std::uint8_t** out) override {
    ARROW_RETURN_NOT_OK(take(size));
    const arrow::Status status = base_->Allocate(size, alignment, out);
    if (!status.ok()) {
      bytes_ -= size;
      return status;
    }
    ++n_allocations_;
    retain();
    return status;
  }

  arrow::Status Reallocate(std::int64_t old_size, std::int64_t new_size, std::int64_t alignment,
                           std::uint8_t** data) override {
    // Both are there while the bytes are moved.
    ARROW_RETURN_NOT_OK(take(new_size));
    const arrow::Status status = base_->Reallocate(old_size, new_size, alignment, data);
    bytes_ -= status.ok() ? old_size : new_size;
    return status;
  }

  void Free(std::uint8_t* data, std::int64_t size, std::int64_t alignment) override {
    base_->Free(data, size, alignment);
    bytes_ -= size;
    release();
  }

  std::int64_t bytes_allocated() const override { return bytes_; }
  std::int64_t total_bytes_allocated() const override { return total_bytes_; }
  std::int64_t num_allocations() const override { return n_allocations_; }
  std::string backend_name() const override { return base_->backend_name(); }

 private:
  arrow::Status take(std::int64_t size) {
    const bool can_fit = size >= 0 && size <= limit_bytes_;
    if (can_fit && (bytes_ += size) <= limit_bytes_) {
      total_bytes_ += size;
      return arrow::Status::OK();
    }
    if (can_fit) bytes_ -= size;
    has_refused_ = true;
    return arrow::Status::OutOfMemory("the bound of a decoded file");
  }

  arrow::MemoryPool* base_ = arrow::default_memory_pool();
  const std::int64_t limit_bytes_;
  std::atomic<std::int64_t> bytes_{0};
  std::atomic<std::int64_t> total_bytes_{0};
  std::atomic<std::int64_t> n_allocations_{0};
  std::atomic<std::int64_t> users_{1};  // allocations that are not freed, and the DecodePool
  std::atomic<bool> has_refused_{false};
};

DecodePool::DecodePool(std::int64_t limit_bytes) : pool_(new Pool(limit_bytes)) {}
DecodePool::~DecodePool() { pool_->release(); }
arrow::MemoryPool* DecodePool::get() const { return pool_; }

void DecodePool::check(const arrow::Status& status, const std::string& path) const {
  if (status.ok()) return;
  if (pool_->has_refused())
    throw_error(ErrorKind::kCorruptData, path,
                "takes more than {} bytes once it is decoded, far more than what it says that it "
                "holds: it is damaged or hostile; restore it, or write it again",
                pool_->limit_bytes());
  throw Error(status.IsOutOfMemory() ? ErrorKind::kInternal : ErrorKind::kCorruptData,
              status.ToString(), path);
}

}  // namespace cellfeed::format
