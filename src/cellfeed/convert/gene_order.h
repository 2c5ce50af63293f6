// Gene order: genes by falling mean expression, so that frequent genes get small numbers and small
// gaps.
#pragma once

#include <cstdint>
#include <stop_token>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/ordered_pipeline.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::convert {

// Joined columns by falling sum over all cells; ties and NaN sums keep the source's order. Reads
// every cell once. The result does not depend on the pool: sums are added in the order of the
// cells.
std::vector<std::int64_t> genes_by_mean(const Sources& sources, exec::ThreadPool& pool,
                                        const PipelineLimits& limits,
                                        const ProgressCallback& progress, std::stop_token stop);

}  // namespace cellfeed::convert
