#include "cellfeed/loader/batch_iterator.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/exec/thread_start.h"
#include "cellfeed/loader/batch_assembly.h"
#include "cellfeed/loader/batch_queue.h"
#include "cellfeed/loader/window_reader.h"

namespace cellfeed::loader {

struct BatchIterator::State : std::enable_shared_from_this<BatchIterator::State> {
  State(std::shared_ptr<const LoaderCore> loader_core, sampling::Plan batch_plan,
        std::int64_t first_batch, std::int64_t batch_step,
        std::shared_ptr<exec::ThreadPool> decoders)
      : core(std::move(loader_core)),
        plan(std::move(batch_plan)),
        first(first_batch),
        step(batch_step),
        pool(decoders ? std::move(decoders) : exec::shared_pool(core->options.threads)),
        queue(static_cast<std::size_t>(core->options.prefetch_batches)) {}

  std::int64_t n_batches() const {
    return std::max<std::int64_t>(0, (plan.n_batches() - first + step - 1) / step);
  }
  void drive() noexcept;
  void begin_batches(WindowReader& reader);
  bool begin_batch(const std::shared_ptr<Window>& window, std::size_t b);
  void run_slice(Window& window, std::size_t b, const Slice& slice, PendingBatch& pending);

  // Of all threads.
  const std::shared_ptr<const LoaderCore> core;
  const sampling::Plan plan;
  const std::int64_t first;
  const std::int64_t step;
  const std::shared_ptr<exec::ThreadPool> pool;
  const std::uint64_t generation = exec::fork_generation();
  std::stop_source stop;
  BatchQueue queue;

  // Of the consumer.
  std::int64_t last_ns = 0;  // of the first next(), then of the latest batch
  std::jthread driver;
};

namespace {

// Every live iterator of this process, so that exit can stop them. Leaked: it must outlive static
// destruction.
struct Registry {
  std::mutex mutex;
  std::set<BatchIterator*> iterators;  // guarded by mutex
};
Registry& registry() {
  static auto* instance = new exec::PerProcess<Registry>();
  return instance->get();
}

}  // namespace

// ---- the driver

void BatchIterator::State::drive() noexcept {
  // Ends after the queue: the consumer need not wait for reads that nobody wants.
  std::optional<WindowReader> reader;
  std::exception_ptr error;
  try {
    const BatchSequence batches{plan, first, step, n_batches()};
    reader.emplace(core, batches, *pool, queue, stop.get_token());
    begin_batches(*reader);
  } catch (...) {
    error = std::current_exception();
  }
  queue.end(std::move(error));
}

void BatchIterator::State::begin_batches(WindowReader& reader) {
  while (const std::shared_ptr<Window> window = reader.take())
    for (std::size_t b = 0; b < window->n_batches(); ++b)
      if (!begin_batch(window, b)) return;
}

// False once the pass is stopped.
bool BatchIterator::State::begin_batch(const std::shared_ptr<Window>& window, std::size_t b) {
  auto lease = acquire_bytes(*core, plan_batch_bytes(*core, *window, b), stop.get_token(),
                             [this] { return queue.is_empty(); });
  if (!lease) return false;
  const auto pending = std::make_shared<PendingBatch>();
  pending->lease = std::move(*lease);
  pending->batch = make_batch(*core, *window, b);
  pending->lease.set(std::max(pending->lease.bytes(), core->recycler->taken_bytes(pending->batch)));
  pending->tasks_left = std::ssize(window->batch(b).slices);
  if (!queue.push(pending)) return false;
  try {
    const auto self = shared_from_this();
    for (const Slice& slice : window->batch(b).slices)
      pool->submit(
          [self, window, b, slice, pending] { self->run_slice(*window, b, slice, *pending); });
  } catch (...) {
    queue.fail(*pending, std::current_exception());  // it waits for slices that nobody decodes
    throw;
  }
  return true;
}

// ---- the pool's threads

void BatchIterator::State::run_slice(Window& window, std::size_t b, const Slice& slice,
                                     PendingBatch& pending) {
  try {
    if (!stop.stop_requested())
      window.decode_slice(b, slice, core->options.casting, pending.batch, *core->counters);
    if (pending.tasks_left.fetch_sub(1) != 1 || stop.stop_requested()) return;
    const std::int64_t more = finish_batch(*core, window, b, pending.batch);
    if (more > 0) pending.lease.set(pending.lease.bytes() + more);
    queue.set_ready(pending);
  } catch (...) {
    queue.fail(pending, std::current_exception());
  }
}

// ---- the consumer

BatchIterator::BatchIterator(std::shared_ptr<const LoaderCore> core, sampling::Plan plan,
                             std::int64_t first, std::int64_t step,
                             std::shared_ptr<exec::ThreadPool> pool)
    : state_(
          std::make_shared<State>(std::move(core), std::move(plan), first, step, std::move(pool))) {
  if (first < 0 || step < 1)
    throw_invalid("batches are taken from first >= 0 by step >= 1: {}, {}", first, step);
  Registry& live = registry();
  const std::lock_guard lock(live.mutex);
  live.iterators.insert(this);
}

BatchIterator::~BatchIterator() {
  if (exec::fork_generation() != state_->generation) {
    // The driver and the pool's threads exist in the parent only: nothing here may be joined,
    // locked or freed.
    new std::shared_ptr<State>(std::move(state_));
    return;
  }
  {
    Registry& live = registry();
    const std::lock_guard lock(live.mutex);
    live.iterators.erase(this);
  }
  stop();
  if (state_->driver.joinable()) state_->driver.join();
}

void BatchIterator::stop() noexcept {
  if (exec::fork_generation() != state_->generation) return;
  state_->stop.request_stop();
  state_->queue.close();
}

void BatchIterator::start_driver() {
  State& state = *state_;
  if (state.driver.joinable() || state.stop.stop_requested()) return;
  try {
    state.driver = exec::start_thread([self = state_](const std::stop_token&) { self->drive(); });
  } catch (...) {
    stop();
    throw;
  }
}

BatchIterator::Status BatchIterator::next(std::int64_t wait_ms,
                                          std::shared_ptr<LoadedBatch>* batch) {
  State& state = *state_;
  if (exec::fork_generation() != state.generation)
    throw Error(
        ErrorKind::kInvalidArgument,
        "this iterator was made before the process forked; make a new one with iter(loader)");
  Counters& counters = *state.core->counters;
  const std::int64_t start = now_ns();
  if (state.last_ns == 0) state.last_ns = start;
  start_driver();
  BatchQueue::Popped popped = state.queue.pop(std::chrono::milliseconds(wait_ms));
  counters.wait_ns += now_ns() - start;
  if (popped.error) {
    stop();
    std::rethrow_exception(std::move(popped.error));
  }
  if (!popped.pending) return popped.is_over ? Status::kEnd : Status::kWaiting;
  popped.pending->lease.release();
  const matrix::Batch& loaded = popped.pending->batch;
  const std::int64_t now = now_ns();
  counters.elapsed_ns += now - std::exchange(state.last_ns, now);
  counters.ready_sum += popped.n_ready;
  ++counters.batches;
  counters.peak_bytes =
      state.core->cache_bytes + state.core->thread_bytes + state.core->account->peak();
  counters.cells += loaded.n_rows();
  counters.nnz += matrix::block_nnz(loaded.x);
  try {
    *batch = std::make_shared<LoadedBatch>(std::move(popped.pending->batch), state.core->recycler);
  } catch (...) {
    stop();  // a batch is lost: no other may come after it
    throw;
  }
  return Status::kReady;
}

void stop_all_iterators() noexcept {
  Registry& live = registry();
  const std::lock_guard lock(live.mutex);
  for (BatchIterator* iterator : live.iterators) iterator->stop();
}

}  // namespace cellfeed::loader
