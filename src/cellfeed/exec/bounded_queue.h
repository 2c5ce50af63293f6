// BoundedQueue<T>: first in, first out, at most `capacity` items; producers wait when it is full,
// consumers when empty. Thread-safe, any number of producers and consumers. Not fork-safe: make a
// new one in a child.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {

template <typename T>
class BoundedQueue {
 public:
  explicit BoundedQueue(std::size_t capacity) : capacity_(capacity) {
    if (capacity == 0) throw_invalid("a queue needs room for one item: capacity is 0");
  }

  // False, with the item dropped, when the queue is or becomes closed or a stop is requested.
  bool push(T item, std::stop_token stop = {}) {
    {
      std::unique_lock lock(mutex_);
      const bool ready = has_room_.wait(lock, stop, [this] { return closed_ || has_space(); });
      if (!ready || closed_ || stop.stop_requested()) return false;
      items_.push_back(std::move(item));
    }
    has_item_.notify_one();
    return true;
  }

  // Empty when the queue is closed and drained, or a stop is requested.
  std::optional<T> pop(std::stop_token stop = {}) {
    std::unique_lock lock(mutex_);
    const bool ready = has_item_.wait(lock, stop, [this] { return closed_ || !items_.empty(); });
    if (!ready || stop.stop_requested()) return std::nullopt;
    return take_front(lock);
  }

  // Empty when there is nothing right now.
  std::optional<T> try_pop() {
    std::unique_lock lock(mutex_);
    return take_front(lock);
  }

  // No more items come in; what is queued can still be popped. Idempotent.
  void close() {
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
    }
    has_item_.notify_all();
    has_room_.notify_all();
  }

  // Closes and drops what is queued.
  void cancel() {
    std::deque<T> dropped;
    {
      std::lock_guard lock(mutex_);
      closed_ = true;
      dropped.swap(items_);
    }
    has_item_.notify_all();
    has_room_.notify_all();
  }

  std::size_t size() const {
    std::lock_guard lock(mutex_);
    return items_.size();
  }
  std::size_t capacity() const { return capacity_; }
  bool is_closed() const {
    std::lock_guard lock(mutex_);
    return closed_;
  }

 private:
  bool has_space() const { return items_.size() < capacity_; }

  std::optional<T> take_front(std::unique_lock<std::mutex>& lock) {
    if (items_.empty()) return std::nullopt;
    std::optional<T> item(std::move(items_.front()));
    items_.pop_front();
    lock.unlock();
    has_room_.notify_one();
    return item;
  }

  const std::size_t capacity_;
  mutable std::mutex mutex_;
  std::condition_variable_any has_item_;
  std::condition_variable_any has_room_;
  std::deque<T> items_;
  bool closed_ = false;
};

}  // namespace cellfeed::exec
