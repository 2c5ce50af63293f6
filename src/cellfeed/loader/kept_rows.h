// KeptRows: what is left of the rows of one slice, back to back in memory of its own until it is
// known where the batch has them; SliceOrder, which tells that; and KeptRowsPool.
//
// So a batch of fewer genes is written once, and by all threads: each row goes to its place from
// the nearest caches, and there are no gaps to be closed behind it.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/loader/slices.h"
#include "cellfeed/matrix/csr.h"
#include "cellfeed/transform/transform.h"

namespace cellfeed::loader {

// Not thread-safe.
class KeptRows {
 public:
  // For rows of `n_rows` positions from `first_position` of a batch on, in any order, of at most
  // max_entries in all. REQUIRES: n_rows <= kSliceRows.
  void reset(std::int64_t first_position, std::int64_t n_rows, std::int64_t max_entries,
             DType dtype);
  // Where the next row may be put before it is added.
  transform::RowRoom next() {
    return {indices_.data() + size_, values_.data() + static_cast<std::size_t>(size_) * width_};
  }
  // Copied unless it lies at next(). REQUIRES: its position is one of these, and none was added for
  // it.
  void add(std::int64_t position, const transform::Row& row);

  std::int64_t size() const { return size_; }
  // Copies all to the block, the first row to entry `begin`, and says where each row begins.
  // REQUIRES: every row was added.
  void copy_to(matrix::CsrBlock& block, std::int64_t begin, bool past_caches) const;

 private:
  std::int64_t first_position_ = 0;
  std::int64_t n_rows_ = 0;
  std::int64_t size_ = 0;
  std::size_t width_ = 0;
  // Of each position: where its row begins here, and its entries.
  std::array<std::int64_t, kSliceRows> begins_{};
  std::array<std::int32_t, kSliceRows> counts_{};
  matrix::Buffer<std::int32_t> indices_;
  matrix::Buffer<std::byte> values_;
};

// Used again and again, so that slices need no fresh pages. Thread-safe. A forked child starts with
// none.
class KeptRowsPool {
 public:
  explicit KeptRowsPool(std::size_t max_kept) : max_kept_(max_kept) {}
  std::unique_ptr<KeptRows> take();
  void give_back(std::unique_ptr<KeptRows> rows) noexcept;

 private:
  struct State {
    std::mutex mutex;
    std::vector<std::unique_ptr<KeptRows>> rows;  // guarded by mutex
  };
  State& state();

  const std::size_t max_kept_;
  exec::PerProcess<std::unique_ptr<State>> state_;
};

// Of the slices of one batch, each of which begins where the one before ends. No thread waits for
// another: a slice that comes too early is left here, for the one that it waits for. What the batch
// has no room for is left to the end. Thread-safe.
class SliceOrder {
 public:
  // In entries; 0: not known yet. REQUIRES: set_room before any slice is given.
  std::int64_t room() const { return room_; }
  void set_room(std::int64_t entries) { room_ = entries; }

  struct Placed {
    std::unique_ptr<KeptRows> rows;
    std::int64_t begin = 0;  // the first entry in the batch
  };
  // The slices that have a place now that this one is there, for the caller to copy; none where one
  // before it is missing.
  std::vector<Placed> place(std::size_t number, std::unique_ptr<KeptRows> rows);
  // Those that had no room, with places as if they had. REQUIRES: every slice was given.
  std::vector<Placed> place_rest();
  // Of what has a place. REQUIRES: as place_rest.
  std::int64_t end() const { return end_; }

 private:
  std::vector<Placed> place_next();

  std::int64_t room_ = 0;
  std::mutex mutex_;
  // Guarded by mutex_.
  std::size_t next_ = 0;
  std::int64_t end_ = 0;
  std::map<std::size_t, std::unique_ptr<KeptRows>> early_;
};

}  // namespace cellfeed::loader
