#include "cellfeed/loader/batch_queue.h"

#include <utility>

namespace cellfeed::loader {

bool BatchQueue::push(std::shared_ptr<PendingBatch> pending) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return is_closed_ || batches_.size() < max_batches_; });
  if (is_closed_) return false;
  batches_.push_back(std::move(pending));
  n_batches_ = batches_.size();
  return true;
}

void BatchQueue::end(std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!is_closed_) end_error_ = std::move(error);
  is_ended_ = true;
  changed_.notify_all();
}

void BatchQueue::set_ready(PendingBatch& pending) noexcept {
  const std::lock_guard lock(mutex_);
  pending.is_ready = true;
  changed_.notify_all();
}

void BatchQueue::fail(PendingBatch& pending, std::exception_ptr error) noexcept {
  const std::lock_guard lock(mutex_);
  if (!pending.error) pending.error = std::move(error);
  pending.is_ready = true;
  changed_.notify_all();
}

BatchQueue::Popped BatchQueue::pop(std::chrono::milliseconds at_most) {
  std::unique_lock lock(mutex_);
  const auto is_settled = [&] { return batches_.empty() ? is_ended_ : batches_.front()->is_ready; };
  Popped popped;
  if (!changed_.wait_for(lock, at_most, is_settled)) return popped;
  popped.is_over = batches_.empty();
  if (popped.is_over) {
    popped.error = std::exchange(end_error_, nullptr);
    return popped;
  }
  for (const auto& pending : batches_) popped.n_ready += pending->is_ready ? 1 : 0;
  popped.pending = std::move(batches_.front());
  batches_.pop_front();
  n_batches_ = batches_.size();
  // Taken along: a thread of the pool may still hold the batch, and go after this one looks at it.
  popped.error = std::exchange(popped.pending->error, nullptr);
  changed_.notify_all();
  return popped;
}

void BatchQueue::close() noexcept {
  std::list<std::shared_ptr<PendingBatch>> dropped;  // freed after the lock
  const std::lock_guard lock(mutex_);
  dropped.swap(batches_);
  n_batches_ = 0;
  end_error_ = nullptr;
  is_closed_ = true;
  is_ended_ = true;
  changed_.notify_all();
}

}  // namespace cellfeed::loader
