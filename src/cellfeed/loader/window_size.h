// WindowSizer: how many batches of a plan are read as one window. Compressed files gain from many:
// each chunk is inflated once a window. Reads nothing. Not thread-safe: an iterator has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/sampling/plan.h"

namespace cellfeed::loader {

// The batches that one iterator takes of a plan: number i is batch first + i * step.
struct BatchSequence {
  const sampling::Plan& plan;
  std::int64_t first = 0;
  std::int64_t step = 1;
  std::int64_t size = 0;
};

// What windows and finished batches may hold, in bytes; and whether all chunks are kept between
// windows.
struct WindowRoom {
  std::int64_t bytes = 0;
  bool keeps_chunks = false;
};

class WindowSizer {
 public:
  // Lifetime: cells and the plan outlive this.
  WindowSizer(const collection::Collection& cells, const BatchSequence& batches,
              const WindowRoom& room)
      : cells_(cells), batches_(batches), room_(room) {}

  // Plans of the batches of the next window, the first from number 0; empty after the last.
  std::vector<sampling::BatchPlan> next_window();

 private:
  struct PlannedBatch {
    sampling::BatchPlan plan;
    std::int64_t bytes = -1;  // that reading it takes; -1: not asked yet
  };

  std::size_t choose_size();
  std::size_t part_of_group(double overlapping, double at_most);
  std::size_t n_left() const;
  std::size_t n_left_in_group() const;
  void plan_ahead(std::size_t n);
  double bytes(std::size_t n);
  double inflated_per_row(std::size_t n);
  bool saves_inflating(std::size_t smaller, std::size_t larger);

  const collection::Collection& cells_;
  const BatchSequence batches_;
  const WindowRoom room_;
  std::int64_t next_ = 0;
  std::deque<PlannedBatch> ahead_;  // from next_ on
  // What was found for the first windows; an order is the same everywhere.
  std::optional<bool> half_is_worse_;
  std::optional<bool> more_is_better_;
};

}  // namespace cellfeed::loader
