// WindowSizer: how many batches of a plan are read as one window. Compressed files gain from many:
// each chunk is inflated once a window. Reads no rows. Not thread-safe: an iterator has its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/loader/rows_by_store.h"
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

  // The batches of the next window, the first from number 0; empty after the last.
  std::vector<LocatedBatch> next_window();

 private:
  // What reading some batches together takes. A row counts once a matrix.
  struct Work {
    std::int64_t rows = 0;
    std::int64_t inflated_rows = 0;  // that lie in compressed chunks
    double bytes = 0;                // of those chunks whole, and of the other rows
    double per_row() const { return bytes / static_cast<double>(rows); }
  };

  std::size_t choose_size();
  std::size_t part_of_group(double overlapping, double at_most);
  std::size_t n_left() const;
  std::size_t n_left_in_group() const;
  void plan_ahead(std::size_t n);
  Work work_of(std::size_t n);
  double bytes(std::size_t n);
  bool saves_inflating(std::size_t smaller, std::size_t larger);

  const collection::Collection& cells_;
  const BatchSequence batches_;
  const WindowRoom room_;
  std::int64_t next_ = 0;
  // From next_ on: the batches, and the memory that reading each takes, where it was asked for.
  std::vector<LocatedBatch> ahead_;
  std::vector<std::int64_t> bytes_;
  // What was found for the first windows; an order is the same everywhere.
  std::optional<bool> half_is_worse_;
  std::optional<bool> more_is_better_;
};

}  // namespace cellfeed::loader
