// ThreadPool: a fixed number of threads that run tasks in the order of submission, in the StopScope
// of who submits them.
// Thread-safe. Fork-safe: in a forked child every pool starts again, empty, with threads of its
// own.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::exec {

// More than any machine gains from.
inline constexpr int kMaxThreads = 1024;

class ThreadPool {
 public:
  // Threads start as tasks arrive. REQUIRES: 1 <= n_threads <= kMaxThreads.
  explicit ThreadPool(int n_threads);
  // Drops tasks that have not begun and waits for those that have. May run on one of its own
  // threads, which then ends by itself.
  virtual ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  int n_threads() const { return n_threads_; }

  // A task should catch what it throws. The first error that escapes one is kept, and thrown by the
  // next submit, parallel_for or rethrow_task_error of this pool, whoever calls it: an error is
  // never lost and never aborts. Throws kIo where a thread is needed and cannot be had, and
  // std::bad_alloc; the task is then dropped. Virtual for doubles that fail.
  virtual void submit(std::function<void()> task);
  void rethrow_task_error();

  // Calls task(i) once for each i in [0, n) on at most n_threads (and max_threads) threads, the
  // calling one among them, and returns when all have ended; so a task of this pool may call it.
  // After an error no further i begins; the first error is thrown here.
  void parallel_for(std::int64_t n, const std::function<void(std::int64_t)>& task,
                    int max_threads = kMaxThreads);

 private:
  struct State;

  State& state();
  bool needs_thread(const State& state) const;
  void enqueue(std::function<void()> task);

  int n_threads_;
  PerProcess<std::shared_ptr<State>> state_;
};

// The process-wide pool of that size; it lives while someone holds it. A forked child gets its own.
std::shared_ptr<ThreadPool> shared_pool(int n_threads);

// Threads for work that a user gave a number for: the number, or where it is 0 (not given)
// default_thread_count(). Throws kInvalidArgument for what no machine has.
int checked_thread_count(int asked);

// What the affinity mask and the control group's CPU quota leave to this process; at least 1. Ranks
// of one machine (LOCAL_WORLD_SIZE) that are not bound to processors of their own share them.
int default_thread_count();

}  // namespace cellfeed::exec
