// Ring: one io_uring whose queue all reads of a process share, so that reads of many files are in
// flight together. Internal to io.
#pragma once

#include <liburing.h>

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "cellfeed/io/byte_source.h"
#include "cellfeed/io/open_file.h"

namespace cellfeed::io {

// Thread-safe. One thread at a time drives it: submits for all, and takes what has come for all.
// Whoever waits for reads drives it, or waits for the one who does.
class Ring : public std::enable_shared_from_this<Ring> {
 public:
  explicit Ring(int queue_depth);  // throws kUnsupported where the kernel refuses io_uring, or kIo
  ~Ring();
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  // False after the kernel failed to take reads; the ring is then of no more use.
  bool is_usable() const;

  // Begins as many reads as there is room for in the queue; the rest follow while anybody waits.
  // REQUIRES: requests are inside the file. Lifetime: the file and the buffers outlive the result.
  std::unique_ptr<PendingReads> begin(const OpenFile& file, std::span<const ReadRequest> requests);

 private:
  class Reads;
  struct Slot {
    Reads* reads = nullptr;
    ReadRequest rest;     // what is still to be read
    DirectSpan span;      // of the read in flight
    AlignedBytes bounce;  // for direct reads that are not aligned
    bool is_bounced = false;
  };
  using Lock = std::unique_lock<std::mutex>;

  void wait(Reads& reads);
  void abandon(Reads& reads);
  void drive(Lock& lock, std::size_t n_wanted);
  void fill();
  void start_read(std::size_t slot);
  void prepare_read(Slot& slot, std::size_t number);
  int submit(unsigned n_wanted);
  void note_submitted(int status);
  void give_up(int error_number);
  void reap();
  void finish_read(std::size_t slot, int result);
  void fail(std::size_t slot, const std::exception_ptr& error);
  void free_slot(std::size_t slot);

  mutable std::mutex mutex_;  // guards all below; the driver alone touches ring_, without it
  std::condition_variable driver_left_;
  bool is_driven_ = false;
  bool is_usable_ = true;
  io_uring ring_{};
  std::vector<Slot> slots_;
  std::vector<std::size_t> free_slots_;
  std::vector<std::size_t> again_;     // slots whose rest is to be read in another round
  std::vector<std::size_t> prepared_;  // slots in the submission queue, in its order
  std::size_t n_in_flight_ = 0;        // taken by the kernel
  std::deque<Reads*> waiting_;         // with requests that have no slot yet
};

// This process's ring of that depth, made on demand. Throws what Ring throws.
std::shared_ptr<Ring> process_ring(int queue_depth);

}  // namespace cellfeed::io
