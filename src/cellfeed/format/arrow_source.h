// A byte source as a file of Arrow. Thread-safe as Arrow asks: ReadAt.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <cstddef>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/range_reads.h"

namespace arrow {
class MemoryPool;
}

namespace cellfeed::format {

// Bytes of a source that were brought to memory before.
struct HeldBytes {
  std::int64_t offset = 0;
  std::span<const std::byte> bytes;
};

// Errors of the source become those of Arrow with their message.
class SourceFile final : public arrow::io::RandomAccessFile {
 public:
  // pool: of what is read; outlives the file. in_memory: is handed out where it lies, as a map of
  // the source is, and outlives what Arrow makes of it.
  SourceFile(std::shared_ptr<const io::ByteSource> source, arrow::MemoryPool* pool,
             std::vector<HeldBytes> in_memory = {});
  // Reads these, many at once, and gives them to who asks for what lies in them until it is called
  // again. Throws what the source throws. REQUIRES: nobody reads meanwhile.
  void hold(std::vector<io::ByteRange> ranges);
  // Throws the error of the source that made a read fail, as it was; returns where there was none.
  void rethrow_source_error() const;

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<std::int64_t> GetSize() override { return source_->size(); }
  arrow::Result<std::int64_t> Tell() const override { return at_; }
  arrow::Status Seek(std::int64_t position) override;
  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t n, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t n) override;
  arrow::Result<std::int64_t> Read(std::int64_t n, void* out) override;
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t n) override;

 private:
  bool copy_held(std::int64_t position, std::span<std::byte> out) const;
  // Null where they are not in memory in one piece.
  const std::byte* find_in_memory(std::int64_t position, std::int64_t n) const;

  const std::shared_ptr<const io::ByteSource> source_;
  arrow::MemoryPool* const pool_;
  std::vector<HeldBytes> in_memory_;  // few
  std::int64_t at_ = 0;
  bool is_closed_ = false;
  std::vector<io::ByteRange> held_;
  std::optional<io::RangeReads> reads_;  // of held_
  mutable std::mutex mutex_;
  std::exception_ptr failure_;  // the first; protected by mutex_
};

}  // namespace cellfeed::format
