// DecodePool: the memory that Arrow takes to decode one file, bounded, because a few kilobytes of a
// hostile file can stand for gigabytes. Thread-safe.
// Lifetime: what was decoded may outlive it.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <utility>

namespace cellfeed::format {

class DecodePool {
 public:
  explicit DecodePool(std::int64_t limit_bytes);
  ~DecodePool();
  DecodePool(const DecodePool&) = delete;
  DecodePool& operator=(const DecodePool&) = delete;

  arrow::MemoryPool* get() const;
  // Throws kCorruptData; where the bound was what failed, it says so.
  void check(const arrow::Status& status, const std::string& path) const;
  template <typename T>
  T value(arrow::Result<T> result, const std::string& path) const {
    check(result.status(), path);
    return *std::move(result);
  }

 private:
  class Pool;
  Pool* pool_;  // deletes itself once nothing has memory of it
};

}  // namespace cellfeed::format
