#include "cellfeed/io/uring.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <map>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::io {
namespace {

constexpr std::int64_t kSlotBounceBytes = 128 << 10;

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

// The requests of one call, and how far they are. Guarded by the ring's mutex.
class Ring::Reads final : public PendingReads {
 public:
  Reads(std::shared_ptr<Ring> ring, const OpenFile& opened, std::span<const ReadRequest> wanted)
      : file(opened), used(opened.use()), ring_(std::move(ring)) {
    requests.reserve(wanted.size());
    for (const ReadRequest& request : wanted)
      if (!request.out.empty()) requests.push_back(request);
    if (used.fd() < 0) throw_lost(file.path());
  }
  ~Reads() override { ring_->abandon(*this); }
  void wait() override { ring_->wait(*this); }

  bool has_more() const { return !error && next < requests.size(); }
  std::size_t n_left() const { return n_running + (has_more() ? requests.size() - next : 0); }

  const OpenFile& file;
  const Descriptor::Use used;
  std::vector<ReadRequest> requests;
  std::size_t next = 0;       // the first request without a slot
  std::size_t n_running = 0;  // slots
  std::exception_ptr error;

 private:
  const std::shared_ptr<Ring> ring_;
};

Ring::Ring(int queue_depth) {
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
  prepared_.reserve(depth);
  for (std::size_t slot = depth; slot-- > 0;) free_slots_.push_back(slot);
}

Ring::~Ring() { ::io_uring_queue_exit(&ring_); }

bool Ring::is_usable() const {
  const std::lock_guard lock(mutex_);
  return is_usable_;
}

std::unique_ptr<PendingReads> Ring::begin(const OpenFile& file,
                                          std::span<const ReadRequest> requests) {
  auto reads = std::make_unique<Reads>(shared_from_this(), file, requests);
  Lock lock(mutex_);
  if (reads->has_more()) waiting_.push_back(reads.get());
  // Whoever drives takes these up in the next turn.
  if (!is_driven_ && !waiting_.empty()) drive(lock, 0);
  return reads;
}

void Ring::wait(Reads& reads) {
  Lock lock(mutex_);
  while (reads.n_left() > 0) {
    if (is_driven_)
      driver_left_.wait(lock);
    else
      drive(lock, reads.n_left());
  }
  // The queue is left full, for reads that were begun and nobody waits for yet.
  if (!is_driven_ && (!waiting_.empty() || !again_.empty())) drive(lock, 0);
  if (reads.error) std::rethrow_exception(reads.error);
}

void Ring::abandon(Reads& reads) {
  Lock lock(mutex_);
  std::erase(waiting_, &reads);
  reads.next = reads.requests.size();
  if (reads.n_running > 0 && !reads.error)
    reads.error = std::make_exception_ptr(Error(ErrorKind::kCancelled, "reading was stopped"));
  while (reads.n_running > 0) {
    if (is_driven_)
      driver_left_.wait(lock);
    else
      drive(lock, reads.n_running);
  }
}

// One turn. Waits until n_wanted reads have come or a quarter of those in flight, whichever is
// less: few system calls, and the device never runs dry. REQUIRES: nobody drives.
void Ring::drive(Lock& lock, std::size_t n_wanted) {
  is_driven_ = true;
  reap();
  fill();
  const std::size_t total = prepared_.size() + n_in_flight_;
  const std::size_t n = std::min(n_wanted, std::max<std::size_t>(1, total / 4));
  if (total > 0) {
    lock.unlock();
    const int status = submit(static_cast<unsigned>(n));
    lock.lock();
    note_submitted(status);
    reap();
  }
  is_driven_ = false;
  driver_left_.notify_all();
}

void Ring::fill() {
  for (const std::size_t slot : std::exchange(again_, {})) start_read(slot);
  while (!waiting_.empty() && !free_slots_.empty()) {
    Reads& reads = *waiting_.front();
    if (!reads.has_more()) {
      waiting_.pop_front();
      continue;
    }
    const std::size_t slot = free_slots_.back();
    free_slots_.pop_back();
    slots_[slot].reads = &reads;
    slots_[slot].rest = reads.requests[reads.next++];
    ++reads.n_running;
    start_read(slot);
  }
}

void Ring::start_read(std::size_t slot) {
  if (slots_[slot].reads->error) return free_slot(slot);
  try {
    if (!is_usable_) throw_errno(EIO, slots_[slot].reads->file.path(), "submit reads to io_uring");
    prepare_read(slots_[slot], slot);
  } catch (...) {
    fail(slot, std::current_exception());
  }
}

// There is always an entry: the queue holds as many as there are slots.
void Ring::prepare_read(Slot& slot, std::size_t number) {
  const OpenFile& file = slot.reads->file;
  const std::int64_t wanted = std::ssize(slot.rest.out);
  std::byte* target = slot.rest.out.data();
  slot.is_bounced = file.is_direct() && !is_aligned(slot.rest, file.alignment());
  if (slot.is_bounced) {
    if (!slot.bounce) slot.bounce = allocate_direct_buffer(kSlotBounceBytes);
    slot.span = direct_span(slot.rest.offset, wanted, kSlotBounceBytes);
    target = slot.bounce.get();
  } else {
    const std::int64_t length = std::min(wanted, kMaxCallBytes);
    slot.span = {.start = slot.rest.offset, .length = length, .skip = 0, .useful = length};
  }
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  ::io_uring_prep_read(entry, slot.reads->used.fd(), target,
                       static_cast<unsigned>(slot.span.length),
                       static_cast<std::uint64_t>(slot.span.start));
  ::io_uring_sqe_set_data64(entry, number);
  prepared_.push_back(number);
}

// Returns the entries taken, or a negative error number. Without the lock: the driver alone.
int Ring::submit(unsigned n_wanted) {
  int status = 0;
  if (is_usable_) {
    status = ::io_uring_submit_and_wait(&ring_, n_wanted);
    const bool is_full = status == -EAGAIN || status == -EBUSY;
    if (!is_full || n_in_flight_ == 0) return status;
    status = 0;
  }
  io_uring_cqe* ready = nullptr;
  if (n_in_flight_ > 0) ::io_uring_wait_cqe(&ring_, &ready);
  return status;
}

void Ring::note_submitted(int status) {
  if (status == -EINTR) return;
  if (status < 0) return give_up(-status);
  prepared_.erase(prepared_.begin(), prepared_.begin() + status);
  n_in_flight_ += static_cast<std::size_t>(status);
}

// What the kernel has not taken it never will: this ring is not used again.
void Ring::give_up(int error_number) {
  is_usable_ = false;
  for (const std::size_t slot : std::exchange(prepared_, {})) {
    try {
      throw_errno(error_number, slots_[slot].reads->file.path(), "submit reads to io_uring");
    } catch (...) {
      fail(slot, std::current_exception());
    }
  }
}

void Ring::reap() {
  io_uring_cqe* ready = nullptr;
  while (::io_uring_peek_cqe(&ring_, &ready) == 0 && ready != nullptr) {
    const auto slot = static_cast<std::size_t>(::io_uring_cqe_get_data64(ready));
    const int result = ready->res;
    ::io_uring_cqe_seen(&ring_, ready);
    --n_in_flight_;
    try {
      finish_read(slot, result);
    } catch (...) {
      fail(slot, std::current_exception());
    }
  }
}

void Ring::finish_read(std::size_t number, int result) {
  Slot& slot = slots_[number];
  const OpenFile& file = slot.reads->file;
  if (result == -EAGAIN || result == -EINTR) {
    again_.push_back(number);
    return;
  }
  if (result < 0) {
    throw_errno(-result, file.path(),
                fmt::format("read {} bytes at offset {}", slot.span.length, slot.span.start));
  }
  const std::int64_t got = std::min<std::int64_t>(result - slot.span.skip, slot.span.useful);
  if (got <= 0)
    throw_shrunken(file.path(), slot.rest.offset, std::ssize(slot.rest.out), file.size());
  if (slot.is_bounced) {
    std::memcpy(slot.rest.out.data(), slot.bounce.get() + slot.span.skip,
                static_cast<std::size_t>(got));
  }
  slot.rest.out = slot.rest.out.subspan(static_cast<std::size_t>(got));
  slot.rest.offset += got;
  if (slot.rest.out.empty())
    free_slot(number);
  else
    again_.push_back(number);
}

// The first error of some reads ends them: those in flight are waited for, no more begin.
void Ring::fail(std::size_t slot, const std::exception_ptr& error) {
  if (!slots_[slot].reads->error) slots_[slot].reads->error = error;
  free_slot(slot);
}

void Ring::free_slot(std::size_t slot) {
  --std::exchange(slots_[slot].reads, nullptr)->n_running;
  free_slots_.push_back(slot);
}

namespace {

struct Rings {
  std::mutex mutex;  // guards by_depth
  std::map<int, std::shared_ptr<Ring>> by_depth;
};

}  // namespace

std::shared_ptr<Ring> process_ring(int queue_depth) {
  // Never destroyed: reads may happen until the very end.
  static auto& all = *new exec::PerProcess<std::unique_ptr<Rings>>();
  Rings& rings = *all.get([] { return std::make_unique<Rings>(); });
  const std::lock_guard lock(rings.mutex);
  std::shared_ptr<Ring>& ring = rings.by_depth[queue_depth];
  if (!ring || !ring->is_usable()) ring = std::make_shared<Ring>(queue_depth);
  return ring;
}

}  // namespace cellfeed::io
