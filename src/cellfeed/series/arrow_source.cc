#include "cellfeed/series/arrow_source.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <arrow/result.h>
#include <arrow/status.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>

namespace cellfeed::series {
namespace {

class SourceFile final : public arrow::io::RandomAccessFile {
 public:
  SourceFile(std::shared_ptr<const io::ByteSource> source, arrow::MemoryPool* pool)
      : source_(std::move(source)), pool_(pool) {
    set_mode(arrow::io::FileMode::READ);
  }

  arrow::Status Close() override {
    is_closed_ = true;
    return arrow::Status::OK();
  }
  bool closed() const override { return is_closed_; }
  arrow::Result<std::int64_t> GetSize() override { return source_->size(); }
  arrow::Result<std::int64_t> Tell() const override { return at_; }
  arrow::Status Seek(std::int64_t position) override {
    if (position < 0) return arrow::Status::Invalid("a negative position");
    at_ = position;
    return arrow::Status::OK();
  }

  arrow::Result<std::int64_t> ReadAt(std::int64_t position, std::int64_t n, void* out) override {
    if (position < 0 || n < 0) return arrow::Status::Invalid("a negative position or length");
    n = std::max<std::int64_t>(0, std::min(n, source_->size() - position));
    try {
      source_->read(position, {static_cast<std::byte*>(out), static_cast<std::size_t>(n)});
    } catch (const std::exception& error) {
      return arrow::Status::IOError(error.what());
    }
    return n;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> ReadAt(std::int64_t position,
                                                       std::int64_t n) override {
    if (position < 0 || n < 0) return arrow::Status::Invalid("a negative position or length");
    // What a damaged file asks for is no reason to take more than it has.
    n = std::max<std::int64_t>(0, std::min(n, source_->size() - position));
    ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(n, pool_));
    ARROW_RETURN_NOT_OK(ReadAt(position, n, buffer->mutable_data()).status());
    return buffer;
  }
  arrow::Result<std::int64_t> Read(std::int64_t n, void* out) override {
    ARROW_ASSIGN_OR_RAISE(n, ReadAt(at_, n, out));
    at_ += n;
    return n;
  }
  arrow::Result<std::shared_ptr<arrow::Buffer>> Read(std::int64_t n) override {
    ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, n));
    at_ += buffer->size();
    return buffer;
  }

 private:
  const std::shared_ptr<const io::ByteSource> source_;
  arrow::MemoryPool* const pool_;
  std::int64_t at_ = 0;
  bool is_closed_ = false;
};

}  // namespace

std::shared_ptr<arrow::io::RandomAccessFile> arrow_file(std::shared_ptr<const io::ByteSource> from,
                                                        arrow::MemoryPool* pool) {
  return std::make_shared<SourceFile>(std::move(from), pool);
}

}  // namespace cellfeed::series
