#include "cellfeed/exec/byte_budget.h"

#include <algorithm>
#include <condition_variable>
#include <mutex>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {

struct ByteBudget::State {
  explicit State(std::int64_t limit_bytes) : limit(limit_bytes) {}

  const std::int64_t limit;
  std::mutex mutex;  // guards what follows
  std::condition_variable_any changed;
  std::int64_t used = 0;
  std::int64_t peak = 0;
  std::int64_t waiting = 0;  // what those who wait ask for, up to the limit for each

  bool fits(std::int64_t bytes) const { return used == 0 || bytes <= limit - used; }
  bool fits_beside_waiting(std::int64_t bytes) const {
    return waiting == 0 ? fits(bytes) : bytes <= limit - used - waiting;
  }
  void take(std::int64_t bytes) {
    used += bytes;
    peak = std::max(peak, used);
  }
  void give_back(std::int64_t bytes) {
    {
      std::lock_guard lock(mutex);
      used -= bytes;
    }
    changed.notify_all();
  }
};

namespace {

void require_size(std::int64_t bytes) {
  if (bytes < 0) throw_invalid("bytes to hold cannot be negative: {}", bytes);
}

}  // namespace

ByteBudget::ByteBudget(std::int64_t limit) {
  if (limit <= 0) throw_invalid("a byte budget must be above 0, not {}", limit);
  state_ = std::make_shared<State>(limit);
}

std::optional<ByteBudget::Lease> ByteBudget::acquire(std::int64_t bytes, std::stop_token stop,
                                                     const std::function<bool()>& must_go_on) {
  require_size(bytes);
  State& state = *state_;
  std::unique_lock lock(state.mutex);
  const std::int64_t wanted = std::min(bytes, state.limit);
  state.waiting += wanted;
  state.changed.wait(lock, stop, [&] { return state.fits(bytes) || must_go_on(); });
  state.waiting -= wanted;
  if (stop.stop_requested()) return std::nullopt;
  state.take(bytes);
  return Lease(state_, bytes);
}

void ByteBudget::recheck() {
  // Whoever waits has asked before, and is asleep, or asks after.
  const std::lock_guard lock(state_->mutex);
  state_->changed.notify_all();
}

std::optional<ByteBudget::Lease> ByteBudget::try_acquire(std::int64_t bytes) {
  require_size(bytes);
  std::lock_guard lock(state_->mutex);
  if (!state_->fits_beside_waiting(bytes)) return std::nullopt;
  state_->take(bytes);
  return Lease(state_, bytes);
}

ByteBudget::Lease ByteBudget::take(std::int64_t bytes) {
  require_size(bytes);
  std::lock_guard lock(state_->mutex);
  state_->take(bytes);
  return Lease(state_, bytes);
}

std::int64_t ByteBudget::limit() const { return state_->limit; }

std::int64_t ByteBudget::used() const {
  std::lock_guard lock(state_->mutex);
  return state_->used;
}

std::int64_t ByteBudget::peak() const {
  std::lock_guard lock(state_->mutex);
  return state_->peak;
}

ByteBudget::Lease& ByteBudget::Lease::operator=(Lease&& other) noexcept {
  if (this != &other) {
    release();
    state_ = std::move(other.state_);
    bytes_ = std::exchange(other.bytes_, 0);
  }
  return *this;
}

void ByteBudget::Lease::release() noexcept {
  if (!state_) return;
  state_->give_back(std::exchange(bytes_, 0));
  state_.reset();
}

void ByteBudget::Lease::set(std::int64_t bytes) {
  if (bytes <= bytes_) return shrink(bytes);
  if (!state_) throw_invalid("a lease of nothing cannot grow to {} bytes", bytes);
  std::lock_guard lock(state_->mutex);
  state_->take(bytes - bytes_);
  bytes_ = bytes;
}

void ByteBudget::Lease::shrink(std::int64_t bytes) {
  if (bytes < 0 || bytes > bytes_) {
    throw_invalid("a lease of {} bytes cannot shrink to {}", bytes_, bytes);
  }
  if (state_) state_->give_back(std::exchange(bytes_, bytes) - bytes);
}

}  // namespace cellfeed::exec
