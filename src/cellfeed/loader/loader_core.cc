#include "cellfeed/loader/loader_core.h"

#include <algorithm>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/memory_budget.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/transform/select_genes.h"

namespace cellfeed::loader {
namespace {

// What a thread decodes rows in, at most.
constexpr std::int64_t kThreadBytes = std::int64_t{512} << 10;

// One part in so many of the memory for reading ahead belongs to buffers that wait for the next
// batch, which would find no room where reading takes all there is. Dense batches are the largest.
constexpr std::int64_t kBufferPart = 16;
constexpr std::int64_t kDenseBufferPart = 8;
// Less would hold no buffer that is worth keeping.
constexpr std::int64_t kMinBufferBytes = std::int64_t{16} << 20;

// Compressed files that fit are kept inflated. Of larger ones true random order would find little
// in a cache, so most of the budget goes to windows, which inflate each chunk once for all their
// batches.
void split_budget(LoaderCore& core) {
  const std::int64_t budget = core.options.memory_budget;
  const std::int64_t inflated = core.collection->inflated_bytes();
  const std::int64_t scratch = core.collection->scratch_bytes();
  core.inflating_threads = core.options.threads;
  if (scratch > 0)
    core.inflating_threads =
        static_cast<int>(std::clamp<std::int64_t>(budget / 4 / scratch, 1, core.options.threads));
  core.inflating_bytes = core.inflating_threads * scratch;
  core.thread_bytes = std::min(core.options.threads * kThreadBytes, budget / 16);
  // Chunks are whole, at the ends of arrays too.
  const std::int64_t everything = inflated + inflated / 32 + (std::int64_t{1} << 20);
  core.caches_everything = inflated > 0 && everything <= budget / 10 * 9 - core.inflating_bytes;
  core.cache_bytes = inflated == 0 ? 0 : core.caches_everything ? everything : budget / 16;
  core.queue_bytes = budget - core.cache_bytes - core.thread_bytes;
}

std::int64_t buffer_bytes_of(const LoaderCore& core) {
  if (core.options.pinned) return 0;  // torch keeps them
  const auto is_dense = [](const auto& matrix) { return matrix.output == Output::kDense; };
  const bool has_dense =
      is_dense(core.options) || std::ranges::any_of(core.options.matrices, is_dense);
  const std::int64_t bytes =
      (core.queue_bytes - core.inflating_bytes) / (has_dense ? kDenseBufferPart : kBufferPart);
  return bytes < kMinBufferBytes ? 0 : bytes;
}

std::vector<MatrixOutput> make_outputs(const collection::Collection& cells,
                                       const LoaderOptions& options) {
  if (!options.matrices.empty() && options.matrices.size() + 1 != cells.n_matrices())
    throw_invalid("the collection has {} further matrices, and there are options for {}",
                  cells.n_matrices() - 1, options.matrices.size());
  std::vector<MatrixOutput> outputs;
  for (std::size_t m = 0; m < cells.n_matrices(); ++m) {
    LoaderOptions own = options;
    if (m > 0) {
      const bool follows = cells.has_first_genes(m);
      std::erase_if(own.transforms, [&](const auto& transform) {
        return !follows || dynamic_cast<const transform::SelectGenes*>(transform.get()) == nullptr;
      });
      if (!options.matrices.empty()) {
        own.output = options.matrices[m - 1].output;
        own.dtype = options.matrices[m - 1].dtype;
      }
    }
    matrix::make_value_buffer(own.dtype, 0);  // throws for a dtype that batches cannot hold
    auto pipeline = std::make_shared<const RowPipeline>(cells.matrix(m), own);
    auto sink = make_sink(own, *pipeline);
    outputs.push_back({.cells = &cells.matrix(m),
                       .pipeline = std::move(pipeline),
                       .sink = std::move(sink),
                       .dtype = own.dtype});
  }
  return outputs;
}

}  // namespace

std::optional<exec::ByteBudget::Lease> acquire_bytes(const LoaderCore& core, std::int64_t bytes,
                                                     const std::stop_token& stop,
                                                     const std::function<bool()>& must_go_on) {
  if (stop.stop_requested()) return std::nullopt;
  exec::ByteBudget& budget = core.account->budget();
  if (auto lease = budget.try_acquire(bytes)) return lease;
  // What does not fit is to be alone.
  core.recycler->drop_kept(bytes > budget.limit());
  return budget.acquire(bytes, stop, must_go_on);
}

std::shared_ptr<const LoaderCore> make_loader_core(
    std::shared_ptr<const collection::Collection> collection, LoaderOptions options) {
  exec::check_memory_budget(options.memory_budget);
  options.threads = exec::checked_thread_count(options.threads);
  if (options.prefetch_batches <= 0) options.prefetch_batches = 2 * options.threads + 2;
  auto core = std::make_shared<LoaderCore>();
  core->matrices = make_outputs(*collection, options);
  for (const auto& name : options.obs) core->obs.push_back(collection->obs_column(name));
  core->counters = std::make_shared<Counters>(options.obs.size());
  core->collection = std::move(collection);
  core->options = std::move(options);
  split_budget(*core);
  core->account = std::make_shared<const MemoryAccount>(core->queue_bytes, buffer_bytes_of(*core));
  core->recycler =
      std::make_shared<Recycler>(static_cast<std::size_t>(core->options.prefetch_batches) + 2,
                                 core->account, core->options.pinned);
  if (core->cache_bytes > 0) core->cache_share = core->collection->reserve_cache(core->cache_bytes);
  return core;
}

}  // namespace cellfeed::loader
