// A byte source as a file of Arrow. Thread-safe as Arrow asks: ReadAt.
#pragma once

#include <arrow/io/interfaces.h>
#include <arrow/result.h>

#include <memory>
#include <optional>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/range_reads.h"

namespace arrow {
class MemoryPool;
}

namespace cellfeed::series {

// Errors of the source become those of Arrow with their message.
class SourceFile final : public arrow::io::RandomAccessFile {
 public:
  // pool: of what is read; outlives the file.
  SourceFile(std::shared_ptr<const io::ByteSource> source, arrow::MemoryPool* pool)
      : source_(std::move(source)), pool_(pool) {
    set_mode(arrow::io::FileMode::READ);
  }
  // Reads these, many at once, and gives them to who asks for what lies in them until it is called
  // again. Throws what the source throws. REQUIRES: nobody reads meanwhile.
  void hold(std::vector<io::ByteRange> ranges);

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

  const std::shared_ptr<const io::ByteSource> source_;
  arrow::MemoryPool* const pool_;
  std::int64_t at_ = 0;
  bool is_closed_ = false;
  std::vector<io::ByteRange> held_;
  std::optional<io::RangeReads> reads_;  // of held_
};

}  // namespace cellfeed::series
