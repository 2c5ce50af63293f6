#include "cellfeed/loader/recycler.h"

namespace cellfeed::loader {
namespace {

// Rows differ in length, so a little more room lets the next batch reuse the same pages.
std::size_t with_slack(std::size_t size) { return size + size / 8; }

template <typename Buffer>
void resize(Buffer& buffer, std::size_t size) {
  if (buffer.capacity_bytes() < size * sizeof(buffer[0])) buffer.reset(with_slack(size));
  buffer.reset(size);
}

}  // namespace

matrix::Buffer<std::int32_t> Recycler::take_indices(std::size_t size) {
  if (pinned_) return matrix::Buffer<std::int32_t>(size, pinned_);
  matrix::Buffer<std::int32_t> buffer;
  {
    const std::lock_guard lock(mutex_);
    if (!indices_.empty()) {
      buffer = std::move(indices_.back());
      indices_.pop_back();
    }
  }
  resize(buffer, size);
  return buffer;
}

matrix::ValueBuffer Recycler::take_values(DType dtype, std::size_t size) {
  if (pinned_) return matrix::make_value_buffer(dtype, size, pinned_);
  matrix::ValueBuffer values = matrix::make_value_buffer(dtype, 0);
  {
    const std::lock_guard lock(mutex_);
    if (!values_.empty()) {
      if (matrix::value_buffer_dtype(values_.back()) == dtype) values = std::move(values_.back());
      values_.pop_back();
    }
  }
  std::visit([size](auto& buffer) { resize(buffer, size); }, values);
  return values;
}

matrix::Buffer<std::byte> Recycler::take_obs(std::size_t bytes) {
  return matrix::Buffer<std::byte>(bytes, pinned_);
}

std::int64_t Recycler::taken_bytes(std::int64_t bytes) const {
  if (!pinned_) return bytes;
  return static_cast<std::int64_t>(
      pinned_->taken_bytes(static_cast<std::size_t>(bytes) + matrix::kPaddingBytes));
}

void Recycler::give_back(matrix::Batch& batch) {
  if (pinned_) return;
  const std::lock_guard lock(mutex_);
  if (auto* csr = std::get_if<matrix::CsrBlock>(&batch.x)) {
    if (indices_.size() < max_kept_) indices_.push_back(std::move(csr->indices));
    if (values_.size() < max_kept_) values_.push_back(std::move(csr->values));
  } else if (values_.size() < max_kept_) {
    values_.push_back(std::move(std::get<matrix::DenseBlock>(batch.x).values));
  }
}

}  // namespace cellfeed::loader
