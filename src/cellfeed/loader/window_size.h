// How many batches of a plan are read as one window. Compressed files gain from many: each chunk is
// inflated once a window. Pure; reads nothing.
#pragma once

#include <cstddef>
#include <cstdint>
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

// What windows and finished batches may hold, in bytes; and whether chunks are kept between
// windows, all of them.
struct WindowRoom {
  std::int64_t bytes = 0;
  bool keeps_chunks = false;
};

// Plans of the batches of the window that starts at batch number `next`, at least one. REQUIRES:
// next < batches.size.
std::vector<sampling::BatchPlan> plan_window_batches(const collection::Collection& cells,
                                                     const BatchSequence& batches,
                                                     std::int64_t next, const WindowRoom& room);

}  // namespace cellfeed::loader
