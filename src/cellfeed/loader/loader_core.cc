#include "cellfeed/loader/loader_core.h"

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::loader {

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
  core->recycler =
      std::make_shared<Recycler>(static_cast<std::size_t>(options.prefetch_batches) + 2);
  core->counters = std::make_shared<Counters>(options.obs.size());
  core->collection = std::move(collection);
  core->options = std::move(options);
  return core;
}

}  // namespace cellfeed::loader
