#include "cellfeed/loader/kept_rows.h"

#include <cstring>
#include <limits>
#include <new>
#include <utility>

#include "cellfeed/transform/simd/row_kernels.h"

namespace cellfeed::loader {

void KeptRows::reset(std::int64_t first_position, std::int64_t n_rows, std::int64_t max_entries,
                     DType dtype) {
  first_position_ = first_position;
  n_rows_ = n_rows;
  size_ = 0;
  width_ = dtype_bytes(dtype);
  indices_.reset(static_cast<std::size_t>(max_entries));
  values_.reset(static_cast<std::size_t>(max_entries) * width_);
}

void KeptRows::add(std::int64_t position, const transform::Row& row) {
  const transform::RowRoom room = next();
  const auto n = static_cast<std::size_t>(row.size);
  if (n > 0 && row.indices != room.indices) {
    std::memcpy(room.indices, row.indices, n * sizeof(std::int32_t));
    std::memcpy(room.values, row.values, n * width_);
  }
  const auto at = static_cast<std::size_t>(position - first_position_);
  begins_[at] = size_;
  counts_[at] = row.size;
  size_ += row.size;
}

void KeptRows::copy_to(matrix::CsrBlock& block, std::int64_t begin, bool past_caches) const {
  auto* values = static_cast<std::byte*>(matrix::value_buffer_data(block.values));
  const auto copy = [&](std::int64_t from, std::int64_t n, std::int64_t to) {
    if (n == 0) return;
    const auto at = static_cast<std::size_t>(from);
    const auto bytes = static_cast<std::size_t>(n) * width_;
    std::byte* out = values + static_cast<std::size_t>(to) * width_;
    if (past_caches) {
      transform::copy_past_caches(indices_.data() + at, static_cast<std::size_t>(n) * 4,
                                  block.indices.data() + to);
      transform::copy_past_caches(values_.data() + at * width_, bytes, out);
    } else {
      std::memcpy(block.indices.data() + to, indices_.data() + at, static_cast<std::size_t>(n) * 4);
      std::memcpy(out, values_.data() + at * width_, bytes);
    }
  };
  // Rows that follow one another here as they do there, as those of one store do, go at once.
  std::int64_t from = 0, n = 0;
  for (std::size_t i = 0; i < static_cast<std::size_t>(n_rows_); ++i) {
    if (begins_[i] != from + n) {
      copy(from, n, begin);
      begin += n;
      from = begins_[i];
      n = 0;
    }
    block.indptr[first_position_ + static_cast<std::int64_t>(i)] = begin + n;
    n += counts_[i];
  }
  copy(from, n, begin);
  if (past_caches) transform::publish_copies();
}

KeptRowsPool::State& KeptRowsPool::state() {
  return *state_.get([] { return std::make_unique<State>(); });
}

std::unique_ptr<KeptRows> KeptRowsPool::take() {
  State& own = state();
  const std::lock_guard lock(own.mutex);
  if (own.rows.empty()) return std::make_unique<KeptRows>();
  std::unique_ptr<KeptRows> rows = std::move(own.rows.back());
  own.rows.pop_back();
  return rows;
}

void KeptRowsPool::give_back(std::unique_ptr<KeptRows> rows) noexcept {
  try {
    State& own = state();
    const std::lock_guard lock(own.mutex);
    if (own.rows.size() < max_kept_) own.rows.push_back(std::move(rows));
  } catch (const std::bad_alloc&) {
    return;  // no memory for the list: they go
  }
}

std::vector<SliceOrder::Placed> SliceOrder::place(std::size_t number,
                                                  std::unique_ptr<KeptRows> rows) {
  const std::lock_guard lock(mutex_);
  early_.emplace(number, std::move(rows));
  return place_next();
}

std::vector<SliceOrder::Placed> SliceOrder::place_rest() {
  const std::lock_guard lock(mutex_);
  room_ = std::numeric_limits<std::int64_t>::max();
  return place_next();
}

std::vector<SliceOrder::Placed> SliceOrder::place_next() {
  std::vector<Placed> placed;
  for (auto first = early_.begin();
       first != early_.end() && first->first == next_ && first->second->size() <= room_ - end_;
       first = early_.erase(first), ++next_) {
    const std::int64_t begin = end_;
    end_ += first->second->size();
    placed.push_back({std::move(first->second), begin});
  }
  return placed;
}

}  // namespace cellfeed::loader
