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

class WindowPlanner {
 public:
  WindowPlanner(const collection::Collection& cells, const BatchSequence& batches,
                std::int64_t next)
      : cells_(cells), batches_(batches), next_(next) {}

  std::size_t n_left() const {
    return std::min(static_cast<std::size_t>(batches_.size - next_), kMaxWindowBatches);
  }
  // Of the fetch group that the first batch is in.
  std::size_t n_left_in_group() const {
    std::size_t n = 1;
    while (n < n_left() && group_of(n) == group_of(0)) ++n;
    return n;
  }

  std::int64_t bytes(std::size_t n) { return Window(cells_, first_plans(n)).plan_fetch_bytes(); }
  // Rows that are inflated for each one that is read, about.
  double inflated_per_row(std::size_t n);

  std::vector<sampling::BatchPlan> first_plans(std::size_t n) {
    while (plans_.size() < n) {
      const std::int64_t number = number_of(plans_.size());
      batches_.plan.batch(number, plans_.emplace_back());
    }
    return {plans_.begin(), plans_.begin() + static_cast<std::ptrdiff_t>(n)};
  }

 private:
  std::int64_t number_of(std::size_t i) const {
    return batches_.first + (next_ + static_cast<std::int64_t>(i)) * batches_.step;
  }
  std::int64_t group_of(std::size_t i) const { return batches_.plan.fetch_group(number_of(i)); }

  const collection::Collection& cells_;
  const BatchSequence& batches_;
  const std::int64_t next_;
  std::vector<sampling::BatchPlan> plans_;
};

double WindowPlanner::inflated_per_row(std::size_t n) {
  std::vector<std::pair<std::int32_t, std::int64_t>> chunks;
  double inflated = 0;
  for (const sampling::BatchPlan& plan : first_plans(n))
    for (const std::int64_t row : plan.rows) {
      const collection::RowPlace place = cells_.locate(row);
      chunks.emplace_back(place.store, place.row / cells_.store(place.store).info().rows_per_chunk);
    }
  const auto n_rows = static_cast<double>(chunks.size());
  std::sort(chunks.begin(), chunks.end());
  chunks.erase(std::unique(chunks.begin(), chunks.end()), chunks.end());
  for (const auto& [store, chunk] : chunks)
    inflated += static_cast<double>(cells_.store(store).info().rows_per_chunk);
  return inflated / n_rows;
}

// Equal parts of what is left of the group, so that no window gets a few batches of a group and
// inflates all its chunks for them.
std::size_t part_of_group(WindowPlanner& planner, double overlapping, double at_most) {
  const std::size_t group = planner.n_left_in_group();
  std::size_t n = group;
  const auto cut = [&](std::size_t parts) { return (group + parts - 1) / parts; };
  for (std::size_t parts = 2; n > 1 && static_cast<double>(planner.bytes(n)) > at_most; ++parts)
    n = cut(parts);
  while (n > 1 && static_cast<double>(planner.bytes(n)) > overlapping) {
    const std::size_t half = (n + 1) / 2;
    if (planner.inflated_per_row(n) <= kWorthwhile * planner.inflated_per_row(half)) break;
    n = half;
  }
  return n;
}

}  // namespace

std::vector<sampling::BatchPlan> plan_window_batches(const collection::Collection& cells,
                                                     const BatchSequence& batches,
                                                     std::int64_t next, const WindowRoom& room) {
  WindowPlanner planner(cells, batches, next);
  const std::size_t left = planner.n_left();
  const auto asked =
      static_cast<std::size_t>(std::max<std::int64_t>(batches.plan.options().fetch_factor, 1));
  if (cells.inflated_bytes() == 0) return planner.first_plans(std::min(asked, left));
  if (room.keeps_chunks) return planner.first_plans(std::min({asked, left, kMaxKeptWindowBatches}));
  const double overlapping = kOverlapping * static_cast<double>(room.bytes);
  const double at_most = kAtMost * static_cast<double>(room.bytes);
  std::size_t n = part_of_group(planner, overlapping, at_most);
  if (n < planner.n_left_in_group()) return planner.first_plans(n);
  while (n < left) {
    const std::size_t more = std::min(2 * n, left);
    if (static_cast<double>(planner.bytes(more)) > overlapping) break;
    n = more;
  }
  const double batch_bytes = static_cast<double>(planner.bytes(n)) / static_cast<double>(n);
  const std::size_t more =
      std::min({2 * n, left, static_cast<std::size_t>(at_most / std::max(batch_bytes, 1.0))});
  if (more > n && static_cast<double>(planner.bytes(more)) <= at_most &&
      planner.inflated_per_row(more) <= kWorthwhile * planner.inflated_per_row(n))
    n = more;
  return planner.first_plans(n);
}

}  // namespace cellfeed::loader
