// RowSelection: some rows of a table, in any order, kept as runs of consecutive rows: memory grows
// with the runs, and not with the rows. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cellfeed::collection {

class RowSelection {
 public:
  // Throws kInvalidArgument for no rows; kOutOfRange for rows outside [0, n_rows).
  RowSelection(std::span<const std::int64_t> rows, std::int64_t n_rows);

  std::int64_t size() const { return begins_.back(); }
  std::int64_t n_runs() const { return static_cast<std::int64_t>(firsts_.size()); }
  // Of the table. REQUIRES: 0 <= i < size().
  std::int64_t row(std::int64_t i) const;
  // Follows from the rows and their order.
  std::uint64_t hash() const;

 private:
  void find_hints();

  std::vector<std::int64_t> firsts_;  // row of the table that a run begins with
  std::vector<std::int64_t> begins_;  // place of it here; size() last
  // The run of every 2^hint_bits_-th place, and the last run at the end.
  std::vector<std::int64_t> hints_;
  int hint_bits_ = 0;
};

}  // namespace cellfeed::collection
