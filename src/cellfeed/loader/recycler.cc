#include "cellfeed/loader/recycler.h"

#include <new>
#include <optional>

namespace cellfeed::loader {
namespace {

// Rows differ in length, so a little more room lets the next batch reuse the same pages.
std::size_t with_slack(std::size_t size) { return size + size / 8; }

template <typename Buffer>
void resize(Buffer& buffer, std::size_t size) {
  if (buffer.capacity_bytes() < size * sizeof(buffer[0])) buffer.reset(with_slack(size));
  buffer.reset(size);
}

std::size_t capacity_of(const matrix::Buffer<std::int32_t>& buffer) {
  return buffer.capacity_bytes();
}
std::size_t capacity_of(const matrix::ValueBuffer& values) {
  return std::visit([](const auto& buffer) { return buffer.capacity_bytes(); }, values);
}

// Of the kept buffers that hold so many bytes the smallest, unless it would waste more than half of
// itself: matrices of a batch differ in size. Where none fits, the largest of those that are too
// small, to be given up for the new one; else the end of the list.
template <typename List, typename IsUsable>
typename List::iterator find_fitting(List& kept, std::size_t bytes, const IsUsable& is_usable) {
  auto best = kept.end();
  for (auto it = kept.begin(); it != kept.end(); ++it) {
    const std::size_t capacity = capacity_of(it->buffer);
    if (!is_usable(it->buffer) || capacity > 2 * with_slack(bytes)) continue;
    if (best == kept.end()) best = it;
    const std::size_t so_far = capacity_of(best->buffer);
    const bool fits = capacity >= bytes;
    const bool best_fits = so_far >= bytes;
    if (fits != best_fits ? fits : (fits ? capacity < so_far : capacity > so_far)) best = it;
  }
  return best;
}

}  // namespace

Recycler::State& Recycler::state() {
  return *state_.get([] { return std::make_unique<State>(); });
}

// A buffer that was kept is paid for by the batch that takes it: its lease ends here.
matrix::Buffer<std::int32_t> Recycler::take_indices(std::size_t size) {
  if (pinned_) return matrix::Buffer<std::int32_t>(size, pinned_);
  matrix::Buffer<std::int32_t> buffer;
  {
    State& own = state();
    const std::lock_guard lock(own.mutex);
    const auto found =
        find_fitting(own.indices, size * sizeof(buffer[0]), [](const auto&) { return true; });
    if (found != own.indices.end()) {
      buffer = std::move(found->buffer);
      own.indices.erase(found);
    }
  }
  resize(buffer, size);
  return buffer;
}

matrix::ValueBuffer Recycler::take_values(DType dtype, std::size_t size) {
  if (pinned_) return matrix::make_value_buffer(dtype, size, pinned_);
  matrix::ValueBuffer values = matrix::make_value_buffer(dtype, 0);
  {
    State& own = state();
    const std::lock_guard lock(own.mutex);
    const auto found = find_fitting(
        own.values, size * dtype_bytes(dtype),
        [dtype](const auto& kept) { return matrix::value_buffer_dtype(kept) == dtype; });
    if (found != own.values.end()) {
      values = std::move(found->buffer);
      own.values.erase(found);
    }
  }
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

// The oldest makes room: one that fits no batch any more would stay. It goes with the batch.
template <typename Buffer>
void Recycler::keep(std::vector<Kept<Buffer>>& kept, Buffer& buffer, std::size_t bytes) {
  if (max_kept_ == 0 || bytes == 0) return;
  std::optional<Kept<Buffer>> oldest;
  if (kept.size() >= max_kept_) {
    oldest = std::move(kept.front());
    kept.erase(kept.begin());
    oldest->lease.release();
  }
  if (auto lease =
          account_->budget().try_acquire(static_cast<std::int64_t>(matrix::block_bytes(bytes))))
    kept.push_back({std::move(buffer), std::move(*lease)});
  if (oldest) buffer = std::move(oldest->buffer);
}

void Recycler::give_back(matrix::Batch& batch) noexcept {
  if (pinned_) return;
  // What is not kept, for want of room or of memory for the list, goes with the batch.
  try {
    State& own = state();
    const std::lock_guard lock(own.mutex);
    for (std::size_t m = 0; m <= batch.others.size(); ++m) {
      matrix::Block& block = batch.block(m);
      if (auto* csr = std::get_if<matrix::CsrBlock>(&block))
        keep(own.indices, csr->indices, capacity_of(csr->indices));
      matrix::ValueBuffer& values = matrix::block_values(block);
      keep(own.values, values, capacity_of(values));
    }
  } catch (const std::bad_alloc&) {
    return;
  }
}

void Recycler::drop_kept() {
  State& own = state();
  std::vector<Kept<matrix::Buffer<std::int32_t>>> indices;  // freed after the lock
  std::vector<Kept<matrix::ValueBuffer>> values;
  const std::lock_guard lock(own.mutex);
  indices.swap(own.indices);
  values.swap(own.values);
}

}  // namespace cellfeed::loader
