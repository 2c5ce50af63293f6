#include "cellfeed/exec/thread_pool.h"

#include <algorithm>
#include <condition_variable>
#include <cstdlib>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/exec/cpu_quota.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_start.h"

namespace cellfeed::exec {
namespace {

// One parallel_for. Shared with helper tasks, which may begin after the call has returned.
class Loop {
 public:
  Loop(std::int64_t n, const std::function<void(std::int64_t)>& task) : n_(n), task_(&task) {}

  void help() {
    {
      std::lock_guard lock(mutex_);
      if (is_over_) return;
      ++n_helpers_;
    }
    {
      const StopScope scope(stop_);
      run();
    }
    {
      std::lock_guard lock(mutex_);
      --n_helpers_;
    }
    helper_left_.notify_all();
  }

  void run() {
    try {
      for (std::int64_t i = next_++; i < n_; i = next_++) (*task_)(i);
    } catch (...) {
      fail(std::current_exception());
    }
  }

  void fail(std::exception_ptr error) {
    next_ = n_;
    std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }

  void finish() {
    std::unique_lock lock(mutex_);
    is_over_ = true;
    helper_left_.wait(lock, [this] { return n_helpers_ == 0; });
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
  }

 private:
  const std::int64_t n_;
  const std::function<void(std::int64_t)>* task_;  // not touched once is_over_ and no helper is in
  const std::stop_token stop_ = current_stop();
  std::atomic<std::int64_t> next_{0};
  std::mutex mutex_;  // guards what follows
  std::condition_variable helper_left_;
  int n_helpers_ = 0;
  bool is_over_ = false;
  std::exception_ptr error_;
};

}  // namespace

// Shared between the pool and its threads, so that a pool may be destroyed on one of them.
struct ThreadPool::State {
  std::mutex mutex;  // guards what follows
  std::condition_variable_any has_task;
  std::deque<std::function<void()>> tasks;
  std::vector<std::jthread> threads;
  std::size_t n_idle = 0;
  std::exception_ptr error;

  void run(const std::stop_token& stop) {
    std::unique_lock lock(mutex);
    while (true) {
      ++n_idle;
      const bool has_work = has_task.wait(lock, stop, [this] { return !tasks.empty(); });
      --n_idle;
      if (!has_work || stop.stop_requested()) return;
      std::function<void()> task = std::move(tasks.front());
      tasks.pop_front();
      lock.unlock();
      run_task(task);
      task = nullptr;
      lock.lock();
    }
  }

  void run_task(const std::function<void()>& task) {
    try {
      task();
    } catch (...) {
      std::lock_guard lock(mutex);
      if (!error) error = std::current_exception();
    }
  }

  void shut_down() {
    std::deque<std::function<void()>> dropped;
    std::vector<std::jthread> ending;
    {
      std::lock_guard lock(mutex);
      dropped.swap(tasks);
      ending.swap(threads);
    }
    for (auto& thread : ending) thread.request_stop();
    for (auto& thread : ending) {
      if (thread.get_id() == std::this_thread::get_id()) thread.detach();
    }
  }
};

ThreadPool::ThreadPool(int n_threads) : n_threads_(n_threads) {
  if (n_threads < 1 || n_threads > kMaxThreads) {
    throw_invalid("a pool needs 1 to {} threads, not {}", kMaxThreads, n_threads);
  }
}

ThreadPool::~ThreadPool() {
  if (auto* state = state_.peek(); state != nullptr) (*state)->shut_down();
}

ThreadPool::State& ThreadPool::state() {
  return *state_.get([] { return std::make_shared<State>(); });
}

bool ThreadPool::needs_thread(const State& state) const {
  return state.n_idle <= state.tasks.size() &&
         state.threads.size() < static_cast<std::size_t>(n_threads_);
}

void ThreadPool::enqueue(std::function<void()> task) {
  const auto& state = state_.get([] { return std::make_shared<State>(); });
  {
    // Who holds up a fork may wait for this lock, so that nobody waits for a fork with it.
    std::optional<ForkHold> whole;
    std::unique_lock lock(state->mutex);
    if (needs_thread(*state)) {
      lock.unlock();
      whole.emplace();
      lock.lock();
    }
    if (needs_thread(*state)) {
      // Room first: a thread that was started must not be lost.
      state->threads.reserve(static_cast<std::size_t>(n_threads_));
      state->threads.push_back(
          start_thread([state](const std::stop_token& stop) { state->run(stop); }));
    }
    state->tasks.push_back(std::move(task));
  }
  state->has_task.notify_one();
}

void ThreadPool::submit(std::function<void()> task) {
  rethrow_task_error();
  if (!current_stop().stop_possible()) return enqueue(std::move(task));
  enqueue([stop = current_stop(), task = std::move(task)] {
    const StopScope scope(stop);
    task();
  });
}

void ThreadPool::rethrow_task_error() {
  State& own = state();
  std::exception_ptr error;
  {
    std::lock_guard lock(own.mutex);
    error = std::exchange(own.error, nullptr);
  }
  if (error) std::rethrow_exception(error);
}

void ThreadPool::parallel_for(std::int64_t n, const std::function<void(std::int64_t)>& task,
                              int max_threads) {
  rethrow_task_error();
  if (n <= 0) return;
  const auto loop = std::make_shared<Loop>(n, task);
  const std::int64_t n_helpers = std::min<std::int64_t>(n, std::min(n_threads_, max_threads)) - 1;
  try {
    for (std::int64_t i = 0; i < n_helpers; ++i) enqueue([loop] { loop->help(); });
  } catch (...) {
    loop->fail(std::current_exception());
  }
  loop->run();
  loop->finish();
}

namespace {

struct Registry {
  std::mutex mutex;  // guards pools
  std::map<int, std::weak_ptr<ThreadPool>> pools;
};

}  // namespace

std::shared_ptr<ThreadPool> shared_pool(int n_threads) {
  // Never destroyed: pools may be asked for while the process exits.
  static auto& registries = *new PerProcess<std::unique_ptr<Registry>>();
  Registry& registry = *registries.get([] { return std::make_unique<Registry>(); });
  std::lock_guard lock(registry.mutex);
  std::weak_ptr<ThreadPool>& known = registry.pools[n_threads];
  if (auto pool = known.lock()) return pool;
  auto pool = std::make_shared<ThreadPool>(n_threads);
  known = pool;
  return pool;
}

int checked_thread_count(int asked) {
  if (asked == 0) return default_thread_count();
  if (asked < 0 || asked > kMaxThreads) {
    throw_invalid("threads must be 1 to {}, or left out for one a processor: {}", kMaxThreads,
                  asked);
  }
  return asked;
}

int default_thread_count() {
  return thread_count_of({.allowed = affinity_cpu_count(),
                          .online = online_cpu_count(),
                          .quota = cpu_quota(),
                          .local_ranks = local_rank_count(std::getenv("LOCAL_WORLD_SIZE"))});
}

}  // namespace cellfeed::exec
