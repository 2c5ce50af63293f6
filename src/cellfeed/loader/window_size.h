// WindowSizer: how many batches of a plan are read as one window. Compressed files gain from many:
// each chunk is inflated once a window. Reads no rows. Not thread-safe: an iterator has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/rows_by_store.h"
#include "cellfeed/loader/window.h"
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

  // The batches of the next window, the first from number 0; none after the last.
  PlannedWindow next_window();

 private:
  std::size_t choose_size();
  std::size_t part_of_group(double overlapping, double at_most);
  std::size_t n_left() const;
  std::size_t n_left_in_group() const;
  void plan_ahead(std::size_t n);
  // What reading the next n batches as one window takes; planned when it is first asked for.
  PlannedRows& planned(std::size_t n);
  const Work& work_of(std::size_t n) { return planned(n).work; }
  double bytes(std::size_t n) { return static_cast<double>(work_of(n).reads.bytes_held); }
  bool saves_inflating(std::size_t smaller, std::size_t larger);

  const collection::Collection& cells_;
  const BatchSequence batches_;
  const WindowRoom room_;
  std::int64_t next_ = 0;
  std::vector<LocatedBatch> ahead_;                // from next_ on
  std::map<std::size_t, PlannedRows> candidates_;  // for the next window, by number of batches
  // What was found for the first windows; an order is the same everywhere.
  std::optional<bool> half_is_worse_;
  std::optional<bool> more_is_better_;
};

}  // namespace cellfeed::loader
