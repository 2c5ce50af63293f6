// BatchIterator: one pass over a plan. A driver thread reads ahead, the pool decodes, next() hands
// batches over in order.
//
// Thread-safe: next() may be called from any thread, one at a time; stop() from any thread at any
// time. Lifetime: destroying it stops its work and frees its buffers. In a forked child it is
// inert.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/loader/loader_core.h"
#include "cellfeed/sampling/plan.h"

namespace cellfeed::loader {

class BatchIterator {
 public:
  enum class Status { kReady, kWaiting, kEnd };

  // Yields batches first, first + step, ... of the plan: a worker process takes its share that way.
  // pool: decodes; null for the process's own of the loader's number of threads.
  BatchIterator(std::shared_ptr<const LoaderCore> core, sampling::Plan plan, std::int64_t first = 0,
                std::int64_t step = 1, std::shared_ptr<exec::ThreadPool> pool = nullptr);
  ~BatchIterator();
  BatchIterator(const BatchIterator&) = delete;
  BatchIterator& operator=(const BatchIterator&) = delete;

  // Waits at most wait_ms for the next batch. Rethrows what reading or decoding it threw; after an
  // error or stop(), kEnd.
  Status next(std::int64_t wait_ms, std::shared_ptr<LoadedBatch>* batch);
  // Ends the pass: no more batches, threads end soon, buffers are freed. Idempotent.
  void stop() noexcept;

 private:
  struct State;
  void start_driver();
  std::shared_ptr<State> state_;
};

// Stops every iterator of this process; for the interpreter's exit.
void stop_all_iterators() noexcept;

}  // namespace cellfeed::loader
