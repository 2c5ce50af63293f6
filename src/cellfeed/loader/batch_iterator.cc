#include "cellfeed/loader/batch_iterator.h"

#include <algorithm>
#include <condition_variable>
#include <list>
#include <mutex>
#include <optional>
#include <set>
#include <stop_token>
#include <thread>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/exec/thread_start.h"
#include "cellfeed/loader/batch_assembly.h"
#include "cellfeed/loader/window.h"
#include "cellfeed/loader/window_size.h"

namespace cellfeed::loader {
namespace {

// Small windows are read several ahead, so that a disk always has as much to do.
constexpr std::int64_t kReadAheadBytes = std::int64_t{48} << 20;
constexpr std::int64_t kMaxWindowsAhead = 64;

// A batch on its way: decoded by several threads, then waiting for its turn.
struct PendingBatch {
  matrix::Batch batch;
  exec::ByteBudget::Lease lease;
  std::atomic<std::int64_t> tasks_left{0};
  std::exception_ptr error;  // guarded by State::mutex, as is_ready is
  bool is_ready = false;
};

}  // namespace

struct BatchIterator::State : std::enable_shared_from_this<BatchIterator::State> {
  State(std::shared_ptr<const LoaderCore> loader_core, sampling::Plan batch_plan,
        std::int64_t first_batch, std::int64_t batch_step,
        std::shared_ptr<exec::ThreadPool> decoders)
      : core(std::move(loader_core)),
        plan(std::move(batch_plan)),
        first(first_batch),
        step(batch_step),
        pool(decoders ? std::move(decoders) : exec::shared_pool(core->options.threads)),
        budget(core->account->budget()) {}

  std::int64_t n_batches() const {
    return std::max<std::int64_t>(0, (plan.n_batches() - first + step - 1) / step);
  }
  void drive() noexcept;
  void begin_batches();
  void read_windows() noexcept;
  std::exception_ptr read_until_over();
  std::shared_ptr<Window> take_window();
  std::shared_ptr<Window> make_window(std::vector<LocatedBatch> batches);
  bool has_room_ahead(bool waits);
  bool admit_window(Window& window, bool waits);
  void begin_window(Window& window);
  void finish_window(Window& window);
  void hand_over(std::shared_ptr<Window> window);
  bool is_over();
  bool is_reading_over() const { return stop.stop_requested() || is_abandoned; }
  exec::ByteBudget::Lease wait_for_bytes(std::int64_t bytes, bool is_window);
  std::shared_ptr<PendingBatch> begin_batch(const std::shared_ptr<Window>& window, std::size_t b);
  void run_slice(Window& window, std::size_t b, const Slice& slice, PendingBatch& pending);
  void end_task(Window& window, std::size_t b, PendingBatch& pending);
  void fail(PendingBatch& pending) noexcept;
  void forget_window() noexcept;

  const std::shared_ptr<const LoaderCore> core;
  const sampling::Plan plan;
  const std::int64_t first;
  const std::int64_t step;
  const std::shared_ptr<exec::ThreadPool> pool;
  exec::ByteBudget& budget;  // of all iterators of the loader
  const std::uint64_t generation = exec::fork_generation();

  std::stop_source stop;
  std::mutex mutex;
  std::condition_variable changed;
  // Lists: they are made and emptied without memory, where there may be none left.
  std::list<std::shared_ptr<PendingBatch>> queue;
  std::list<std::shared_ptr<Window>> next_windows;  // read, and not yet taken by the driver
  std::exception_ptr read_error;                    // comes after next_windows
  std::exception_ptr driver_error;                  // comes after queue
  std::int64_t windows_ahead = 0;                   // begun, and not yet taken; bytes as stored
  std::int64_t bytes_ahead = 0;
  std::int64_t live_windows = 0;
  bool is_read_out = false;   // there will be no more windows
  bool is_abandoned = false;  // nobody wants more windows
  bool is_finished = false;
  std::int64_t last_ns = 0;  // of the first next(), then of the latest batch
  std::jthread driver;
};

namespace {

// Every live iterator of this process, so that exit can stop them. Leaked: it must outlive static
// destruction.
struct Registry {
  std::mutex mutex;
  std::set<BatchIterator*> iterators;
};
Registry& registry() {
  static auto* instance = new exec::PerProcess<Registry>();
  return instance->get();
}

}  // namespace

// ---- the driver

// Batches are begun here while the next window is read by a thread of its own: a disk that is
// waited for is always busy.
//
// What is caught on these threads is kept without asking for memory: it may be what is lacking.
void BatchIterator::State::drive() noexcept {
  std::jthread reader;
  std::exception_ptr error;
  try {
    reader = exec::start_thread([this](const std::stop_token&) { read_windows(); });
    begin_batches();
  } catch (...) {
    error = std::current_exception();
  }
  {
    const std::lock_guard lock(mutex);
    if (!stop.stop_requested()) driver_error = std::move(error);
    is_abandoned = true;
    is_finished = true;
    changed.notify_all();
  }
  if (reader.joinable()) reader.join();
  // A window is destroyed without the lock, because that takes it.
  std::list<std::shared_ptr<Window>> unwanted;
  const std::lock_guard lock(mutex);
  unwanted.swap(next_windows);
}

void BatchIterator::State::begin_batches() {
  while (const std::shared_ptr<Window> window = take_window()) {
    for (std::size_t b = 0; b < window->n_batches() && !stop.stop_requested(); ++b) {
      const auto pending = begin_batch(window, b);
      if (!pending) break;
      try {
        const auto self = shared_from_this();
        for (const Slice& slice : window->batch(b).slices)
          pool->submit(
              [self, window, b, slice, pending] { self->run_slice(*window, b, slice, *pending); });
      } catch (...) {
        fail(*pending);  // it waits in the queue, for slices that nobody decodes
        throw;
      }
    }
  }
}

std::shared_ptr<Window> BatchIterator::State::take_window() {
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] { return stop.stop_requested() || !next_windows.empty() || is_read_out; });
  if (stop.stop_requested()) return nullptr;
  if (next_windows.empty()) {
    if (read_error) std::rethrow_exception(std::exchange(read_error, nullptr));
    return nullptr;
  }
  std::shared_ptr<Window> window = std::move(next_windows.front());
  next_windows.pop_front();
  --windows_ahead;
  bytes_ahead -= window->bytes_used();
  changed.notify_all();
  return window;
}

// ---- the reader, a window or more ahead of the driver

// Windows are begun ahead of the one that is waited for, so that a disk has its next reads while it
// does the last of these. The first is waited for alone: nothing delays the first batch.
std::exception_ptr BatchIterator::State::read_until_over() {
  std::list<std::shared_ptr<Window>> begun;
  std::shared_ptr<Window> planned;
  std::exception_ptr error;
  // What threads inflate in; windows are inflated one at a time.
  const auto scratch = budget.take(core->inflating_bytes);
  const std::int64_t room = std::max(budget.limit() - core->inflating_bytes, budget.limit() / 4);
  WindowSizer sizer(*core->collection, {plan, first, step, n_batches()},
                    {room, core->caches_everything});
  bool is_first = true;
  const auto begin_more = [&] {
    while (!error && has_room_ahead(begun.empty())) {
      if (!planned) {
        auto batches = sizer.next_window();
        if (batches.empty()) return;
        planned = make_window(std::move(batches));
      }
      if (!admit_window(*planned, begun.empty())) return;
      begin_window(*planned);
      begun.push_back(std::move(planned));
      if (std::exchange(is_first, false)) return;
    }
  };
  for (;;) {
    try {
      begin_more();
    } catch (...) {
      error = std::current_exception();  // comes after the windows that are begun
    }
    if (begun.empty() || is_over()) return error;
    finish_window(*begun.front());
    hand_over(std::move(begun.front()));
    begun.pop_front();
  }
}

void BatchIterator::State::read_windows() noexcept {
  std::exception_ptr error;
  try {
    error = read_until_over();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex);
  read_error = std::move(error);
  is_read_out = true;
  changed.notify_all();
}

bool BatchIterator::State::is_over() {
  const std::lock_guard lock(mutex);
  return is_reading_over();
}

bool BatchIterator::State::has_room_ahead(bool waits) {
  std::unique_lock lock(mutex);
  const auto has_room = [&] {
    return windows_ahead == 0 ||
           (windows_ahead < kMaxWindowsAhead && bytes_ahead < kReadAheadBytes);
  };
  if (waits) changed.wait(lock, [&] { return is_reading_over() || has_room(); });
  return !is_reading_over() && has_room();
}

// Takes what the window needs from the budget. Windows further ahead leave half of it to others.
bool BatchIterator::State::admit_window(Window& window, bool waits) {
  const std::int64_t bytes = window.plan().bytes_held + window.list_bytes();
  if (waits) {
    window.lease = wait_for_bytes(bytes, true);
    return !is_over();
  }
  if (budget.used() + bytes > budget.limit() / 2) return false;
  auto lease = budget.try_acquire(bytes);
  if (!lease) return false;
  window.lease = std::move(*lease);
  return true;
}

void BatchIterator::State::begin_window(Window& window) {
  window.begin({.stop = stop.get_token()}, *core->counters);
  const std::lock_guard lock(mutex);
  ++windows_ahead;
  bytes_ahead += window.bytes_used();
  changed.notify_all();
}

void BatchIterator::State::finish_window(Window& window) {
  window.wait(*core->counters);
  window.finish(
      [&](std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
        pool->parallel_for(
            tasks,
            [&](std::int64_t i) {
              if (stop.stop_requested()) throw Error(ErrorKind::kCancelled, "loading was stopped");
              task(i);
            },
            core->inflating_threads);
      },
      *core->counters);
  // What was planned is what scattered rows need at most.
  if (window.lease.bytes() > 0) window.lease.set(window.bytes_held() + window.list_bytes());
}

void BatchIterator::State::hand_over(std::shared_ptr<Window> window) {
  const std::lock_guard lock(mutex);
  next_windows.push_back(std::move(window));
  changed.notify_all();
}

std::shared_ptr<Window> BatchIterator::State::make_window(std::vector<LocatedBatch> batches) {
  auto window = std::make_unique<Window>(*core->collection, std::move(batches));
  {
    const std::lock_guard lock(mutex);
    ++live_windows;
  }
  // Where this throws, the window is forgotten too.
  return {window.release(), [self = shared_from_this()](Window* done) {
            delete done;
            self->forget_window();
          }};
}

void BatchIterator::State::forget_window() noexcept {
  const std::lock_guard lock(mutex);
  --live_windows;
  changed.notify_all();
}

// Waits for room, but never for itself: a batch before which all were handed over, and a window
// before which all were decoded, are admitted, and counted, even where they exceed the budget.
exec::ByteBudget::Lease BatchIterator::State::wait_for_bytes(std::int64_t bytes, bool is_window) {
  std::unique_lock lock(mutex);
  for (;;) {
    if (is_reading_over()) return {};
    if (auto lease = budget.try_acquire(bytes)) return std::move(*lease);
    lock.unlock();
    core->recycler->drop_kept();
    lock.lock();
    if (is_reading_over()) return {};
    if (auto lease = budget.try_acquire(bytes)) return std::move(*lease);
    if (queue.empty() && (!is_window || live_windows <= 1)) return budget.take(bytes);
    changed.wait(lock);
  }
}

std::shared_ptr<PendingBatch> BatchIterator::State::begin_batch(
    const std::shared_ptr<Window>& window, std::size_t b) {
  auto pending = std::make_shared<PendingBatch>();
  pending->lease = wait_for_bytes(plan_batch_bytes(*core, window->batch(b)), false);
  pending->batch = make_batch(*core, *window, b);
  pending->tasks_left = static_cast<std::int64_t>(window->batch(b).slices.size());
  std::unique_lock lock(mutex);
  changed.wait(lock, [&] {
    return stop.stop_requested() ||
           queue.size() < static_cast<std::size_t>(core->options.prefetch_batches);
  });
  if (stop.stop_requested()) return nullptr;
  queue.push_back(pending);
  return pending;
}

// ---- the pool's threads

void BatchIterator::State::run_slice(Window& window, std::size_t b, const Slice& slice,
                                     PendingBatch& pending) {
  try {
    if (!stop.stop_requested())
      window.decode_slice(b, slice, *core->pipeline, core->options.casting, pending.batch,
                          *core->counters);
    end_task(window, b, pending);
  } catch (...) {
    fail(pending);
  }
}

void BatchIterator::State::end_task(Window& window, std::size_t b, PendingBatch& pending) {
  if (pending.tasks_left.fetch_sub(1) != 1) return;
  if (stop.stop_requested()) return;
  finish_batch(*core, window, b, pending.batch);
  const std::lock_guard lock(mutex);
  pending.is_ready = true;
  changed.notify_all();
}

void BatchIterator::State::fail(PendingBatch& pending) noexcept {
  const std::lock_guard lock(mutex);
  if (!pending.error) pending.error = std::current_exception();
  pending.is_ready = true;
  changed.notify_all();
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
  std::list<std::shared_ptr<PendingBatch>> dropped;
  {
    const std::lock_guard lock(state_->mutex);
    state_->stop.request_stop();
    dropped.swap(state_->queue);
    state_->driver_error = nullptr;
    state_->is_finished = true;
    state_->changed.notify_all();
  }
}

BatchIterator::Status BatchIterator::next(std::int64_t wait_ms,
                                          std::shared_ptr<LoadedBatch>* batch) {
  State& state = *state_;
  if (exec::fork_generation() != state.generation)
    throw Error(
        ErrorKind::kInvalidArgument,
        "this iterator was made before the process forked; make a new one with iter(loader)");
  const std::int64_t start = now_ns();
  std::unique_lock lock(state.mutex);
  if (state.last_ns == 0) state.last_ns = start;
  if (!state.driver.joinable() && !state.stop.stop_requested()) {
    try {
      state.driver = exec::start_thread([self = state_](const std::stop_token&) { self->drive(); });
    } catch (...) {
      state.is_finished = true;
      state.stop.request_stop();
      throw;
    }
  }
  const auto is_settled = [&] {
    return state.queue.empty() ? state.is_finished : state.queue.front()->is_ready;
  };
  const bool settled = state.changed.wait_for(lock, std::chrono::milliseconds(wait_ms), is_settled);
  state.core->counters->wait_ns += now_ns() - start;
  if (!settled) return Status::kWaiting;
  if (state.queue.empty()) {
    if (state.driver_error) std::rethrow_exception(std::exchange(state.driver_error, nullptr));
    return Status::kEnd;
  }
  std::int64_t ready = 0;
  for (const auto& pending : state.queue) ready += pending->is_ready ? 1 : 0;
  state.core->counters->ready_sum += ready;
  const auto pending = std::move(state.queue.front());
  state.queue.pop_front();
  pending->lease.release();
  // Taken along: a thread of the pool may still hold the batch, and go after this one looks at it.
  std::exception_ptr error = std::exchange(pending->error, nullptr);
  state.changed.notify_all();
  lock.unlock();
  if (error) {
    stop();
    std::rethrow_exception(std::move(error));
  }
  auto& counters = *state.core->counters;
  const std::int64_t now = now_ns();
  counters.elapsed_ns += now - std::exchange(state.last_ns, now);
  ++counters.batches;
  counters.peak_bytes = state.core->cache_bytes + state.core->thread_bytes + state.budget.peak();
  counters.cells += pending->batch.n_rows();
  if (const auto* csr = std::get_if<matrix::CsrBlock>(&pending->batch.x))
    counters.nonzeros += csr->indptr[csr->n_rows];
  try {
    *batch = std::make_shared<LoadedBatch>(std::move(pending->batch), state.core->recycler);
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
