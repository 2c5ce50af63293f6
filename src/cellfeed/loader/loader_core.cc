#include "cellfeed/loader/loader_core.h"

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::loader {
namespace {

// Compressed files that fit are kept inflated. Of larger ones true random order would find little
// in a cache, so most of the budget goes to windows, which inflate each chunk once for all their
// batches.
void split_budget(LoaderCore& core) {
  const std::int64_t budget = core.options.memory_budget;
  const std::int64_t inflated = core.collection->inflated_bytes();
  // Chunks are whole, at the ends of arrays too.
  const std::int64_t everything = inflated + inflated / 32 + (std::int64_t{1} << 20);
  core.caches_everything = inflated > 0 && everything <= budget / 10 * 9;
  core.cache_bytes = inflated == 0 ? 0 : core.caches_everything ? everything : budget / 16;
  core.queue_bytes = budget - core.cache_bytes;
}

}  // namespace

std::shared_ptr<const LoaderCore> make_loader_core(
    std::shared_ptr<const collection::Collection> collection, LoaderOptions options) {
  if (options.memory_budget <= 0)
    throw_invalid("memory_budget must be positive, in bytes: {}", options.memory_budget);
  if (options.threads < 0) throw_invalid("threads must not be negative: {}", options.threads);
  if (options.threads == 0) options.threads = exec::default_thread_count();
  if (options.prefetch_batches <= 0) options.prefetch_batches = 2 * options.threads + 2;
  matrix::make_value_buffer(options.dtype, 0);  // throws for a dtype that batches cannot hold
  auto core = std::make_shared<LoaderCore>();
  core->pipeline = std::make_shared<const RowPipeline>(*collection, options);
  for (const auto& name : options.obs) core->obs.push_back(collection->obs_column(name));
  core->recycler = std::make_shared<Recycler>(
      static_cast<std::size_t>(options.prefetch_batches) + 2, options.pinned);
  core->counters = std::make_shared<Counters>(options.obs.size());
  core->collection = std::move(collection);
  core->options = std::move(options);
  split_budget(*core);
  if (core->cache_bytes > 0) core->collection->set_cache_bytes(core->cache_bytes);
  return core;
}

}  // namespace cellfeed::loader
