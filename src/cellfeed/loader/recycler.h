// Recycler: keeps the buffers of batches that are done with, so that the next ones need no fresh
// pages, as long as the memory account has room for them. Page-locked ones go back to torch, which
// knows when a GPU has read them.
// Thread-safe. Lifetime: shared by a loader and every batch it made. A forked child starts with
// none.
#pragma once

#include <cstddef>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/loader/memory_account.h"
#include "cellfeed/loader/pinned_memory.h"
#include "cellfeed/matrix/batch.h"

namespace cellfeed::loader {

class Recycler {
 public:
  // max_kept: buffers of a kind, of each matrix.
  Recycler(std::size_t max_kept, std::shared_ptr<const MemoryAccount> account,
           std::shared_ptr<PinnedMemory> pinned = nullptr)
      : max_kept_(max_kept), account_(std::move(account)), pinned_(std::move(pinned)) {}
  // matrix: its number in the batch, as matrices of a batch differ in size and each takes what it
  // gave back. Any of its buffers will do: they grow to what the largest batch needs, and then no
  // batch needs fresh pages.
  matrix::Buffer<std::int32_t> take_indices(std::size_t size, std::size_t matrix = 0);
  matrix::ValueBuffer take_values(DType dtype, std::size_t size, std::size_t matrix = 0);
  matrix::Buffer<std::byte> take_bytes(std::size_t bytes, std::size_t matrix = 0);
  matrix::Buffer<std::byte> take_obs(std::size_t bytes);
  void give_back(matrix::Batch& batch) noexcept;
  // The same of one matrix.
  void give_back(matrix::Block& block, std::size_t matrix) noexcept;
  // Frees what is kept, since others need the memory more: all, or all but what lies in the
  // account's part for buffers.
  void drop_kept(bool also_own_part);
  // What a buffer of so many bytes takes of the memory budget.
  std::int64_t taken_bytes(std::int64_t bytes) const;
  // The same of a batch's matrices, whose buffers may be larger than what they were taken for.
  std::int64_t taken_bytes(const matrix::Batch& batch) const;
  const PinnedMemory* pinned() const { return pinned_.get(); }  // null: batches are not page-locked

 private:
  template <typename Buffer>
  struct Kept {
    Buffer buffer;
    exec::ByteBudget::Lease lease;
  };
  struct KeptOfMatrix {
    std::vector<Kept<matrix::Buffer<std::int32_t>>> indices;
    std::vector<Kept<matrix::ValueBuffer>> values;
    std::vector<Kept<matrix::Buffer<std::byte>>> bytes;
  };
  struct State {
    std::mutex mutex;                  // guards what follows
    std::vector<KeptOfMatrix> own;     // in the account's part for buffers
    std::vector<KeptOfMatrix> shared;  // beyond it
  };
  State& state();
  template <typename Buffer>
  Buffer take(std::vector<Kept<Buffer>> KeptOfMatrix::*of_kind, std::size_t matrix);
  template <typename Buffer>
  void keep(std::vector<Kept<Buffer>> KeptOfMatrix::*of_kind, std::size_t matrix, Buffer& buffer);

  const std::size_t max_kept_;
  const std::shared_ptr<const MemoryAccount> account_;
  const std::shared_ptr<PinnedMemory> pinned_;
  exec::PerProcess<std::unique_ptr<State>> state_;
};

// A batch that gives its buffers back when nobody holds it any more.
class LoadedBatch {
 public:
  LoadedBatch(matrix::Batch batch, std::shared_ptr<Recycler> recycler)
      : batch_(std::move(batch)), recycler_(std::move(recycler)) {}
  ~LoadedBatch() { recycler_->give_back(batch_); }
  LoadedBatch(const LoadedBatch&) = delete;
  LoadedBatch& operator=(const LoadedBatch&) = delete;
  matrix::Batch& batch() { return batch_; }
  const matrix::Batch& batch() const { return batch_; }
  const PinnedMemory* pinned() const { return recycler_->pinned(); }

 private:
  matrix::Batch batch_;
  std::shared_ptr<Recycler> recycler_;
};

}  // namespace cellfeed::loader
