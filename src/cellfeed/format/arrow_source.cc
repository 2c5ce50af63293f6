#include "cellfeed/format/arrow_source.h"

#include <arrow/buffer.h>
#include <arrow/memory_pool.h>
#include <arrow/status.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <span>

namespace cellfeed::format {

SourceFile::SourceFile(std::shared_ptr<const io::ByteSource> source, arrow::MemoryPool* pool,
                       std::vector<HeldBytes> in_memory)
    : source_(std::move(source)), pool_(pool), in_memory_(std::move(in_memory)) {
  if (const auto map = source_->map(); !map.empty()) in_memory_.push_back({0, map});
  set_mode(arrow::io::FileMode::READ);
}

void SourceFile::rethrow_source_error() const {
  const std::lock_guard lock(mutex_);
  if (failure_) std::rethrow_exception(failure_);
}

const std::byte* SourceFile::find_in_memory(std::int64_t position, std::int64_t n) const {
  for (const HeldBytes& held : in_memory_)
    if (position >= held.offset && n <= std::ssize(held.bytes) &&
        position - held.offset <= std::ssize(held.bytes) - n)
      return held.bytes.data() + (position - held.offset);
  return nullptr;
}

void SourceFile::hold(std::vector<io::ByteRange> ranges) {
  held_.clear();
  reads_.emplace();
  for (const io::ByteRange& range : ranges) {
    io::check_range(*source_, range.offset, range.length);
    reads_->add(*source_, range);
  }
  reads_->begin();
  reads_->wait();
  held_ = std::move(ranges);
}

bool SourceFile::copy_held(std::int64_t position, std::span<std::byte> out) const {
  for (std::size_t i = 0; i < held_.size(); ++i) {
    const std::int64_t skipped = position - held_[i].offset;
    if (skipped < 0 || skipped + std::ssize(out) > held_[i].length) continue;
    std::ranges::copy(reads_->bytes(i).subspan(static_cast<std::size_t>(skipped), out.size()),
                      out.begin());
    return true;
  }
  return false;
}

arrow::Status SourceFile::Seek(std::int64_t position) {
  if (position < 0) return arrow::Status::Invalid("a negative position");
  at_ = position;
  return arrow::Status::OK();
}

arrow::Result<std::int64_t> SourceFile::ReadAt(std::int64_t position, std::int64_t n, void* out) {
  if (position < 0 || n < 0) return arrow::Status::Invalid("a negative position or length");
  n = std::max<std::int64_t>(0, std::min(n, source_->size() - position));
  const std::span bytes(static_cast<std::byte*>(out), static_cast<std::size_t>(n));
  if (const std::byte* known = find_in_memory(position, n)) {
    std::copy_n(known, n, bytes.begin());
    return n;
  }
  if (copy_held(position, bytes)) return n;
  try {
    source_->read(position, bytes);
  } catch (const std::exception& error) {
    const std::lock_guard lock(mutex_);
    if (!failure_) failure_ = std::current_exception();
    return arrow::Status::IOError(error.what());
  }
  return n;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SourceFile::ReadAt(std::int64_t position,
                                                                 std::int64_t n) {
  if (position < 0 || n < 0) return arrow::Status::Invalid("a negative position or length");
  // What a damaged file asks for is no reason to take more than it has.
  n = std::max<std::int64_t>(0, std::min(n, source_->size() - position));
  if (const std::byte* known = find_in_memory(position, n))
    return std::make_shared<arrow::Buffer>(reinterpret_cast<const std::uint8_t*>(known), n);
  ARROW_ASSIGN_OR_RAISE(std::shared_ptr<arrow::Buffer> buffer, arrow::AllocateBuffer(n, pool_));
  ARROW_RETURN_NOT_OK(ReadAt(position, n, buffer->mutable_data()).status());
  return buffer;
}

arrow::Result<std::int64_t> SourceFile::Read(std::int64_t n, void* out) {
  ARROW_ASSIGN_OR_RAISE(n, ReadAt(at_, n, out));
  at_ += n;
  return n;
}

arrow::Result<std::shared_ptr<arrow::Buffer>> SourceFile::Read(std::int64_t n) {
  ARROW_ASSIGN_OR_RAISE(auto buffer, ReadAt(at_, n));
  at_ += buffer->size();
  return buffer;
}

}  // namespace cellfeed::format
