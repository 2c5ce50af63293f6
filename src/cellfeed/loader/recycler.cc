#include "cellfeed/loader/recycler.h"

#include <new>

namespace cellfeed::loader {
namespace {

// Rows differ in length, so a little more room lets the next batch reuse the same pages.
std::size_t with_slack(std::size_t size) { return size + size / 8; }

template <typename Buffer>
void resize(Buffer& buffer, std::size_t size) {
  if (buffer.capacity_bytes() < size * sizeof(buffer[0])) buffer.reset(with_slack(size));
  buffer.reset(size);
}

template <typename T>
std::size_t capacity_of(const matrix::Buffer<T>& buffer) {
  return buffer.capacity_bytes();
}
std::size_t capacity_of(const matrix::ValueBuffer& values) {
  return std::visit([](const auto& buffer) { return buffer.capacity_bytes(); }, values);
}

template <typename Kept>
Kept& kept_of(std::vector<Kept>& matrices, std::size_t matrix) {
  if (matrices.size() <= matrix) matrices.resize(matrix + 1);
  return matrices[matrix];
}

}  // namespace

Recycler::State& Recycler::state() {
  return *state_.get([] { return std::make_unique<State>(); });
}

// A buffer that was kept is paid for by the batch that takes it: its lease ends here.
template <typename Buffer>
Buffer Recycler::take(std::vector<Kept<Buffer>> KeptOfMatrix::*of_kind, std::size_t matrix) {
  State& all = state();
  const std::lock_guard lock(all.mutex);
  for (auto* matrices : {&all.shared, &all.own}) {
    auto& kept = kept_of(*matrices, matrix).*of_kind;
    if (kept.empty()) continue;
    Buffer buffer = std::move(kept.back().buffer);
    kept.pop_back();
    return buffer;
  }
  return {};
}

matrix::Buffer<std::int32_t> Recycler::take_indices(std::size_t size, std::size_t matrix) {
  if (pinned_) return matrix::Buffer<std::int32_t>(size, pinned_);
  auto buffer = take(&KeptOfMatrix::indices, matrix);
  resize(buffer, size);
  return buffer;
}

matrix::Buffer<std::byte> Recycler::take_bytes(std::size_t bytes, std::size_t matrix) {
  if (pinned_) return matrix::Buffer<std::byte>(bytes, pinned_);
  auto buffer = take(&KeptOfMatrix::bytes, matrix);
  resize(buffer, bytes);
  return buffer;
}

matrix::ValueBuffer Recycler::take_values(DType dtype, std::size_t size, std::size_t matrix) {
  if (pinned_) return matrix::make_value_buffer(dtype, size, pinned_);
  matrix::ValueBuffer values = take(&KeptOfMatrix::values, matrix);
  if (matrix::value_buffer_dtype(values) != dtype) values = matrix::make_value_buffer(dtype, 0);
  std::visit([size](auto& buffer) { resize(buffer, size); }, values);
  return values;
}

matrix::Buffer<std::byte> Recycler::take_obs(std::size_t bytes) {
  return matrix::Buffer<std::byte>(bytes, pinned_);
}

std::int64_t Recycler::taken_bytes(std::int64_t bytes) const {
  const auto size = static_cast<std::size_t>(bytes);
  if (!pinned_) return static_cast<std::int64_t>(matrix::block_bytes(with_slack(size)));
  return static_cast<std::int64_t>(pinned_->taken_bytes(size + matrix::kPaddingBytes));
}

std::int64_t Recycler::taken_bytes(const matrix::Batch& batch) const {
  if (pinned_) return 0;  // as planned
  std::size_t bytes = 0;
  for (std::size_t m = 0; m <= batch.others.size(); ++m) {
    const matrix::Block& block = batch.block(m);
    if (const auto* csr = std::get_if<matrix::CsrBlock>(&block))
      bytes += matrix::block_bytes(csr->indices.capacity_bytes());
    if (const matrix::ValueBuffer* values = matrix::block_values(block))
      bytes += matrix::block_bytes(capacity_of(*values));
    if (const auto* tokens = std::get_if<matrix::TokenBlock>(&block))
      bytes += matrix::block_bytes(tokens->memory.capacity_bytes());
  }
  return static_cast<std::int64_t>(bytes);
}

template <typename Buffer>
void Recycler::keep(std::vector<Kept<Buffer>> KeptOfMatrix::*of_kind, std::size_t matrix,
                    Buffer& buffer) {
  const std::size_t bytes = capacity_of(buffer);
  State& all = state();
  auto& own = kept_of(all.own, matrix).*of_kind;
  auto& shared = kept_of(all.shared, matrix).*of_kind;
  if (own.size() + shared.size() >= max_kept_ || bytes == 0) return;
  const auto taken = static_cast<std::int64_t>(matrix::block_bytes(bytes));
  exec::ByteBudget* part = account_->buffers();
  // A budget gives more than it has to the first who asks.
  if (part != nullptr && taken <= part->limit())
    if (auto lease = part->try_acquire(taken))
      return own.push_back({std::move(buffer), std::move(*lease)});
  if (auto lease = account_->budget().try_acquire(taken))
    shared.push_back({std::move(buffer), std::move(*lease)});
}

void Recycler::give_back(matrix::Batch& batch) noexcept {
  for (std::size_t m = 0; m <= batch.others.size(); ++m) give_back(batch.block(m), m);
}

void Recycler::give_back(matrix::Block& block, std::size_t matrix) noexcept {
  if (pinned_) return;
  // What is not kept, for want of room or of memory for the list, goes with the batch.
  try {
    const std::lock_guard lock(state().mutex);
    if (auto* csr = std::get_if<matrix::CsrBlock>(&block))
      keep(&KeptOfMatrix::indices, matrix, csr->indices);
    if (matrix::ValueBuffer* values = matrix::block_values(block))
      keep(&KeptOfMatrix::values, matrix, *values);
    if (auto* tokens = std::get_if<matrix::TokenBlock>(&block))
      keep(&KeptOfMatrix::bytes, matrix, tokens->memory);
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Recycler::drop_kept(bool also_own_part) {
  State& all = state();
  std::vector<KeptOfMatrix> own, shared;  // freed after the lock
  const std::lock_guard lock(all.mutex);
  shared.swap(all.shared);
  if (also_own_part) own.swap(all.own);
}

}  // namespace cellfeed::loader
