#include "cellfeed/loader/window_size.h"

#include <algorithm>
#include <utility>

#include "cellfeed/loader/window.h"

namespace cellfeed::loader {
namespace {

constexpr std::size_t kMaxWindowBatches = 256;
// Where chunks are kept between windows: no need to wait for many before the first batch.
constexpr std::size_t kMaxKeptWindowBatches = 16;
// What a window may need of the room so that the next is read while its batches are decoded, and at
// most.
constexpr double kOverlapping = 0.4;
constexpr double kAtMost = 0.8;
// Inflating is most of the work: a larger window is worth no overlap where it saves this much of
// it.
constexpr double kWorthwhile = 0.8;

}  // namespace

std::vector<sampling::BatchPlan> WindowSizer::next_window() {
  std::vector<sampling::BatchPlan> window;
  if (next_ == batches_.size) return window;
  const std::size_t n = choose_size();
  plan_ahead(n);
  for (std::size_t i = 0; i < n; ++i) {
    window.push_back(std::move(ahead_.front().plan));
    ahead_.pop_front();
  }
  next_ += static_cast<std::int64_t>(n);
  return window;
}

std::size_t WindowSizer::choose_size() {
  const std::size_t left = n_left();
  const auto asked =
      static_cast<std::size_t>(std::max<std::int64_t>(batches_.plan.options().fetch_factor, 1));
  if (cells_.inflated_bytes() == 0) return std::min(asked, left);
  if (room_.keeps_chunks) return std::min({asked, left, kMaxKeptWindowBatches});
  const double overlapping = kOverlapping * static_cast<double>(room_.bytes);
  const double at_most = kAtMost * static_cast<double>(room_.bytes);
  std::size_t n = part_of_group(overlapping, at_most);
  if (n < n_left_in_group()) return n;
  while (n < left) {
    const std::size_t more = std::min(2 * n, left);
    if (bytes(more) > overlapping) break;
    n = more;
  }
  const double batch_bytes = std::max(bytes(n) / static_cast<double>(n), 1.0);
  const std::size_t more = std::min({2 * n, left, static_cast<std::size_t>(at_most / batch_bytes)});
  if (more <= n || bytes(more) > at_most) return n;
  if (!more_is_better_) more_is_better_ = saves_inflating(n, more);
  return *more_is_better_ ? more : n;
}

// Equal parts of what is left of the group, so that no window gets a few batches of a group and
// inflates all its chunks for them.
std::size_t WindowSizer::part_of_group(double overlapping, double at_most) {
  const std::size_t group = n_left_in_group();
  std::size_t n = group;
  for (std::size_t parts = 2; n > 1 && bytes(n) > at_most; ++parts) n = (group + parts - 1) / parts;
  while (n > 1 && bytes(n) > overlapping) {
    const std::size_t half = (n + 1) / 2;
    if (!half_is_worse_) half_is_worse_ = saves_inflating(half, n);
    if (*half_is_worse_) break;
    n = half;
  }
  return n;
}

std::size_t WindowSizer::n_left() const {
  return std::min(static_cast<std::size_t>(batches_.size - next_), kMaxWindowBatches);
}

// Of the fetch group that the first batch is in.
std::size_t WindowSizer::n_left_in_group() const {
  const auto group_of = [&](std::size_t i) {
    return batches_.plan.fetch_group(batches_.first +
                                     (next_ + static_cast<std::int64_t>(i)) * batches_.step);
  };
  std::size_t n = 1;
  while (n < n_left() && group_of(n) == group_of(0)) ++n;
  return n;
}

void WindowSizer::plan_ahead(std::size_t n) {
  while (ahead_.size() < n) {
    const std::int64_t number = next_ + static_cast<std::int64_t>(ahead_.size());
    PlannedBatch& planned = ahead_.emplace_back();
    batches_.plan.batch(batches_.first + number * batches_.step, planned.plan);
  }
}

double WindowSizer::bytes(std::size_t n) {
  plan_ahead(n);
  double bytes = 0;
  for (std::size_t i = 0; i < n; ++i) {
    PlannedBatch& planned = ahead_[i];
    if (planned.bytes < 0) planned.bytes = Window(cells_, {planned.plan}).plan_fetch_bytes();
    bytes += static_cast<double>(planned.bytes);
  }
  return bytes;
}

bool WindowSizer::saves_inflating(std::size_t smaller, std::size_t larger) {
  return inflated_per_row(larger) <= kWorthwhile * inflated_per_row(smaller);
}

// Rows that a window inflates for each one that is read, about.
double WindowSizer::inflated_per_row(std::size_t n) {
  plan_ahead(n);
  std::vector<std::pair<std::int32_t, std::int64_t>> chunks;
  for (std::size_t i = 0; i < n; ++i)
    for (const std::int64_t row : ahead_[i].plan.rows) {
      const collection::RowPlace place = cells_.locate(row);
      chunks.emplace_back(place.store, place.row / cells_.store(place.store).info().rows_per_chunk);
    }
  const auto n_rows = static_cast<double>(chunks.size());
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  double inflated = 0;
  for (const auto& [store, chunk] : chunks)
    inflated += static_cast<double>(cells_.store(store).info().rows_per_chunk);
  return inflated / n_rows;
}

}  // namespace cellfeed::loader
