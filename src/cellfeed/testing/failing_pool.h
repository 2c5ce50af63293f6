// FailingPool: a double whose submit fails from the k-th call on, as where the system gives no more
// threads or memory. Thread-safe.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::testing {

class FailingPool final : public exec::ThreadPool {
 public:
  FailingPool(int n_threads, std::int64_t n_good) : ThreadPool(n_threads), n_left_(n_good) {}

  void submit(std::function<void()> task) override {
    if (n_left_.fetch_sub(1) <= 0)
      throw Error(ErrorKind::kIo, "cannot start a thread: planted fault");
    ThreadPool::submit(std::move(task));
  }
  bool has_failed() const { return n_left_.load() < 0; }

 private:
  std::atomic<std::int64_t> n_left_;
};

}  // namespace cellfeed::testing
