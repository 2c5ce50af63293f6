// BatchQueue: batches on their way from the driver, which begins them in order, over the pool,
// which decodes them in any, to the consumer, who takes them in order.
//
// Thread-safe. Errors are kept without asking for memory: it may be what is lacking.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <list>
#include <memory>
#include <mutex>

#include "cellfeed/exec/byte_budget.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

struct PendingBatch {
  matrix::Batch batch;
  exec::ByteBudget::Lease lease;
  std::atomic<std::int64_t> tasks_left{0};
  // Guarded by the queue's mutex.
  std::exception_ptr error;
  bool is_ready = false;
};

class BatchQueue {
 public:
  // REQUIRES: max_batches > 0.
  explicit BatchQueue(std::size_t max_batches) : max_batches_(max_batches) {}

  // The driver. push waits for a place; false once the queue is closed.
  bool push(std::shared_ptr<PendingBatch> pending);
  // No batches come after those that are there, but the error, where there is one.
  void end(std::exception_ptr error) noexcept;

  // The pool. The first error of a batch counts.
  void set_ready(PendingBatch& pending) noexcept;
  void fail(PendingBatch& pending, std::exception_ptr error) noexcept;

  // The consumer. Waits for the front batch to be ready.
  struct Popped {
    bool is_over = false;                   // nothing will come; the error is what end() was given
    std::shared_ptr<PendingBatch> pending;  // null where it is over, or the time was
    std::exception_ptr error;
    std::int64_t n_ready = 0;  // batches that were, this one among them
  };
  Popped pop(std::chrono::milliseconds at_most);

  // Whoever stops the pass: batches are dropped, and nothing comes any more. Idempotent.
  void close() noexcept;

  // Whether all batches that were begun have been handed over. Takes no lock.
  bool is_empty() const { return n_batches_.load() == 0; }

 private:
  const std::size_t max_batches_;
  std::atomic<std::size_t> n_batches_{0};  // batches_.size(); changes under the mutex

  std::mutex mutex_;
  std::condition_variable changed_;
  // Guarded by mutex_. A list: it is emptied without memory.
  std::list<std::shared_ptr<PendingBatch>> batches_;
  std::exception_ptr end_error_;
  bool is_ended_ = false;
  bool is_closed_ = false;
};

}  // namespace cellfeed::loader
