#include "cellfeed/loader/window_size.h"

#include <algorithm>
#include <iterator>
#include <utility>

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

PlannedWindow WindowSizer::next_window() {
  if (next_ == batches_.size) return {};
  const std::size_t n = choose_size();
  PlannedWindow window;
  window.reads = std::move(planned(n));
  const auto end = ahead_.begin() + static_cast<std::ptrdiff_t>(n);
  window.batches.assign(std::make_move_iterator(ahead_.begin()), std::make_move_iterator(end));
  ahead_.erase(ahead_.begin(), end);
  candidates_.clear();
  next_ += static_cast<std::int64_t>(n);
  return window;
}

std::size_t WindowSizer::choose_size() {
  const auto asked =
      static_cast<std::size_t>(std::max<std::int64_t>(batches_.plan.options().fetch_factor, 1));
  const std::size_t left = n_left();
  const std::size_t group = std::min(asked, left);
  if (room_.keeps_chunks) return std::min(group, kMaxKeptWindowBatches);
  const Work work = work_of(group);
  if (work.inflated_rows == 0) return group;
  const double overlapping = kOverlapping * static_cast<double>(room_.bytes);
  const double at_most = kAtMost * static_cast<double>(room_.bytes);
  std::size_t n = part_of_group(overlapping, at_most);
  // A window of many batches makes all of them wait; it helps those of its rows that are inflated.
  if (n < n_left_in_group() || 2 * work.inflated_rows < work.rows) return n;
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
    const std::int64_t number = next_ + std::ssize(ahead_);
    sampling::BatchPlan plan;
    batches_.plan.batch(batches_.first + number * batches_.step, plan);
    ahead_.push_back(locate_batch(cells_, std::move(plan)));
  }
}

PlannedRows& WindowSizer::planned(std::size_t n) {
  if (const auto known = candidates_.find(n); known != candidates_.end()) return known->second;
  plan_ahead(n);
  return candidates_.emplace(n, plan_rows(cells_, std::span(ahead_).first(n))).first->second;
}

bool WindowSizer::saves_inflating(std::size_t smaller, std::size_t larger) {
  const auto bytes_per_row = [](const Work& work) {
    return work.bytes / static_cast<double>(work.rows);
  };
  return bytes_per_row(work_of(larger)) <= kWorthwhile * bytes_per_row(work_of(smaller));
}

}  // namespace cellfeed::loader
