// Ring: one io_uring with a queue of reads; rings are pooled per process. Internal to io.
#pragma once

#include <liburing.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/open_file.h"

namespace cellfeed::io {

// Not thread-safe: one thread uses a ring at a time.
class Ring {
 public:
  explicit Ring(int queue_depth);  // throws kUnsupported where the kernel refuses io_uring, or kIo
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  int queue_depth() const { return queue_depth_; }
  // False after the kernel failed to take reads; the ring is then of no more use.
  bool is_usable() const { return is_usable_; }

  // Returns, or throws, only when no read is in flight. REQUIRES: requests are inside the file.
  void read_all(const OpenFile& file, std::span<const ReadRequest> requests);

 private:
  struct Slot {
    ReadRequest rest;     // what is still to be read
    DirectSpan span;      // of the read in flight
    AlignedBytes bounce;  // for direct reads that are not aligned
    bool is_bounced = false;
  };

  void start_read(const OpenFile& file, std::size_t slot);
  void submit_and_wait(const OpenFile& file);
  void reap(const OpenFile& file);
  void finish_read(const OpenFile& file, std::size_t slot, int result);
  void fail(const std::exception_ptr& error);

  int queue_depth_;
  bool is_usable_ = true;
  io_uring ring_{};
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::vector<std::size_t> again_;  // slots whose rest is to be read in another round
  unsigned n_prepared_ = 0;         // in the submission queue
  unsigned n_in_flight_ = 0;        // taken by the kernel
  std::exception_ptr error_;
};

// Borrows a ring from this process's pool for the life of the lease.
class RingLease {
 public:
  explicit RingLease(int queue_depth);
  ~RingLease();
  RingLease(const RingLease&) = delete;
  RingLease& operator=(const RingLease&) = delete;

  Ring& ring() { return *ring_; }

 private:
  std::unique_ptr<Ring> ring_;
};

}  // namespace cellfeed::io
