// DecodePool: the memory that Arrow takes to decode one file, bounded, because a few kilobytes of a
// hostile file can stand for gigabytes. Thread-safe.
// Lifetime: what was decoded may outlive it.
#pragma once

#include <arrow/memory_pool.h>
#include <arrow/result.h>

#include <cstdint>
#include <string>
#include <utility>

namespace cellfeed::format::shard {

// What a table of a shard directory may take once it is decoded: far more than any that is written
// (see max_written_bytes).
std::int64_t max_decoded_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols);
// What the texts of a table may take, for a writer: so little that decoding them stays within
// max_decoded_bytes, whatever buffers grow by on the way.
std::int64_t max_written_bytes(std::int64_t file_bytes, std::int64_t n_rows, std::int64_t n_cols);

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

}  // namespace cellfeed::format::shard
