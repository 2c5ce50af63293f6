#include "cellfeed/io/uring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <mutex>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kBounceBytes = 128 << 10;
constexpr std::int64_t kMaxReadBytes = 1 << 30;

[[noreturn]] void throw_refused(int error_number) {
  throw_error(ErrorKind::kUnsupported, {}, "the kernel refuses io_uring: {}",
              std::strerror(error_number));
}

bool is_aligned(const ReadRequest& request, std::int64_t alignment) {
  const auto address = reinterpret_cast<std::uintptr_t>(request.out.data());
  return (static_cast<std::uintptr_t>(request.offset) | request.out.size() | address) %
             static_cast<std::uintptr_t>(alignment) ==
         0;
}

bool is_refusal(int error_number) {
  return error_number == ENOSYS || error_number == EPERM || error_number == EACCES;
}

}  // namespace

Ring::Ring(int queue_depth) : queue_depth_(queue_depth) {
  const int status = ::io_uring_queue_init(static_cast<unsigned>(queue_depth), &ring_, 0);
  if (is_refusal(-status)) throw_refused(-status);
  if (status < 0) {
    throw_error(ErrorKind::kIo, {},
                "cannot make an io_uring of {} entries: {}; lower queue_depth or raise the limits "
                "of open files and locked memory (ulimit -n, ulimit -l)",
                queue_depth, std::strerror(-status));
  }
  io_uring_probe* probe = ::io_uring_get_probe_ring(&ring_);
  const bool can_read = probe != nullptr && ::io_uring_opcode_supported(probe, IORING_OP_READ) != 0;
  ::io_uring_free_probe(probe);
  if (!can_read) {
    ::io_uring_queue_exit(&ring_);
    throw_refused(ENOSYS);
  }
  const auto depth = static_cast<std::size_t>(queue_depth);
  slots_.resize(depth);
  free_slots_.reserve(depth);
  again_.reserve(depth);
  for (std::size_t slot = depth; slot-- > 0;) free_slots_.push_back(slot);
}

Ring::~Ring() { ::io_uring_queue_exit(&ring_); }

void Ring::read_all(const OpenFile& file, std::span<const ReadRequest> requests) {
  if (file.is_direct()) {  // before anything is in flight, because it may throw
    for (std::size_t i = 0; i < std::min(slots_.size(), requests.size()); ++i) {
      Slot& slot = slots_[free_slots_[free_slots_.size() - 1 - i]];
      if (!slot.bounce) slot.bounce = allocate_direct_buffer(kBounceBytes);
    }
  }
  std::size_t next = 0;
  while (true) {
    while (!error_ && !again_.empty()) {
      start_read(file, again_.back());
      again_.pop_back();
    }
    for (; !error_ && next < requests.size() && !free_slots_.empty(); ++next) {
      if (requests[next].out.empty()) continue;
      const std::size_t slot = free_slots_.back();
      free_slots_.pop_back();
      slots_[slot].rest = requests[next];
      start_read(file, slot);
    }
    if (n_prepared_ + n_in_flight_ == 0) break;
    submit_and_wait(file);
    reap(file);
  }
  free_slots_.insert(free_slots_.end(), again_.begin(), again_.end());
  again_.clear();
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// There is always an entry: the queue holds queue_depth of them, and so many slots there are.
void Ring::start_read(const OpenFile& file, std::size_t slot) {
  auto& [rest, span, bounce, is_bounced] = slots_[slot];
  const std::int64_t wanted = std::ssize(rest.out);
  std::byte* target = rest.out.data();
  is_bounced = file.is_direct() && !is_aligned(rest, file.alignment());
  if (is_bounced) {
    span = direct_span(rest.offset, wanted, kBounceBytes);
    target = bounce.get();
  } else {
    const std::int64_t length = std::min(wanted, kMaxReadBytes);
    span = {.start = rest.offset, .length = length, .skip = 0, .useful = length};
  }
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  ::io_uring_prep_read(entry, file.fd(), target, static_cast<unsigned>(span.length),
                       static_cast<std::uint64_t>(span.start));
  ::io_uring_sqe_set_data64(entry, slot);
  ++n_prepared_;
}

// Waits for a quarter of what is in flight: fewer system calls, and the device never runs dry.
void Ring::submit_and_wait(const OpenFile& file) {
  const unsigned total = n_prepared_ + n_in_flight_;
  int status = 0;
  if (is_usable_) {
    status = ::io_uring_submit_and_wait(&ring_, std::max(1u, total / 4));
    if (status >= 0) {
      n_prepared_ -= static_cast<unsigned>(status);
      n_in_flight_ += static_cast<unsigned>(status);
      return;
    }
  }
  if (status == -EINTR) return;
  if ((status == -EAGAIN || status == -EBUSY) && n_in_flight_ > 0) status = 0;
  if (status < 0) {
    // What the kernel has not taken it never will: this ring is not used again.
    is_usable_ = false;
    n_prepared_ = 0;
    try {
      throw_errno(-status, file.path(), "submit reads to io_uring");
    } catch (...) {
      fail(std::current_exception());
    }
  }
  io_uring_cqe* ready = nullptr;
  if (n_in_flight_ > 0) ::io_uring_wait_cqe(&ring_, &ready);
}

void Ring::reap(const OpenFile& file) {
  io_uring_cqe* ready = nullptr;
  while (::io_uring_peek_cqe(&ring_, &ready) == 0 && ready != nullptr) {
    const auto slot = static_cast<std::size_t>(::io_uring_cqe_get_data64(ready));
    const int result = ready->res;
    ::io_uring_cqe_seen(&ring_, ready);
    --n_in_flight_;
    try {
      finish_read(file, slot, result);
    } catch (...) {
      fail(std::current_exception());
      free_slots_.push_back(slot);
    }
  }
}

void Ring::finish_read(const OpenFile& file, std::size_t slot, int result) {
  auto& [rest, span, bounce, is_bounced] = slots_[slot];
  if (result == -EAGAIN || result == -EINTR) {
    again_.push_back(slot);
    return;
  }
  if (result < 0) {
    throw_errno(-result, file.path(),
                fmt::format("read {} bytes at offset {}", span.length, span.start));
  }
  const std::int64_t got = std::min<std::int64_t>(result - span.skip, span.useful);
  if (got <= 0) throw_shrunken(file.path(), rest.offset, std::ssize(rest.out), file.size());
  if (is_bounced) {
    std::memcpy(rest.out.data(), bounce.get() + span.skip, static_cast<std::size_t>(got));
  }
  rest.out = rest.out.subspan(static_cast<std::size_t>(got));
  rest.offset += got;
  (rest.out.empty() ? free_slots_ : again_).push_back(slot);
}

void Ring::fail(const std::exception_ptr& error) {
  if (!error_) error_ = error;
}

namespace {

struct RingPool {
  std::mutex mutex;
  std::map<int, std::vector<std::unique_ptr<Ring>>> idle;  // by queue depth
};

// As many rings as threads ever read at once. Never destroyed: reads may happen until the very end.
RingPool& ring_pool() {
  static auto& pools = *new exec::PerProcess<std::unique_ptr<RingPool>>();
  return *pools.get([] { return std::make_unique<RingPool>(); });
}

}  // namespace

RingLease::RingLease(int queue_depth) {
  {
    RingPool& pool = ring_pool();
    std::lock_guard lock(pool.mutex);
    auto& idle = pool.idle[queue_depth];
    if (!idle.empty()) {
      ring_ = std::move(idle.back());
      idle.pop_back();
    }
  }
  if (!ring_) ring_ = std::make_unique<Ring>(queue_depth);
}

RingLease::~RingLease() {
  if (!ring_->is_usable()) return;
  RingPool& pool = ring_pool();
  std::lock_guard lock(pool.mutex);
  pool.idle[ring_->queue_depth()].push_back(std::move(ring_));
}

}  // namespace cellfeed::io
