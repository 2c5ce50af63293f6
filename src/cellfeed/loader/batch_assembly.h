// A batch made from a fetched window: its buffers, its obs values; and rows read at once, outside
// any plan.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/loader/loader_core.h"
#include "cellfeed/loader/window.h"

namespace cellfeed::loader {

// Buffers for batch b, every row given its place. REQUIRES: the window is fetched.
// Throws kInvalidArgument for a batch of 2^31 or more non-zeros.
matrix::Batch make_batch(const LoaderCore& core, Window& window, std::size_t b);

// Once all slices are decoded: rows complete, obs values gathered. Returns the bytes that it took
// beside those of plan_batch_bytes.
std::int64_t finish_batch(const LoaderCore& core, Window& window, std::size_t b,
                          matrix::Batch& batch);

// What make_batch allocates at most. REQUIRES: the window is fetched.
std::int64_t plan_batch_bytes(const LoaderCore& core, Window& window, std::size_t b);

// The rows given, in that order, on the calling thread and the pool's. REQUIRES: rows in range;
// throws kOutOfRange.
std::shared_ptr<LoadedBatch> read_rows(const LoaderCore& core, std::span<const std::int64_t> rows);

}  // namespace cellfeed::loader
