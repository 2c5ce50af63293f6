// SampleSet: the rows a strategy may draw, in storage order: all rows, or the given indices sorted.
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "cellfeed/sampling/fingerprint.h"

namespace cellfeed::sampling {

// Rows as the user gives them; absent means all rows. Any order, repeats allowed.
using Indices = std::optional<std::vector<std::int64_t>>;

class SampleSet {
 public:
  // Throws kInvalidArgument for a collection of no rows or empty indices, kOutOfRange for an index
  // outside it.
  SampleSet(std::int64_t n_rows, Indices indices);

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t size() const { return size_; }
  // Row of sample v. REQUIRES: v in [0, size()).
  std::int64_t operator[](std::int64_t v) const {
    return rows_.empty() ? first_ + v : rows_[static_cast<std::size_t>(v)];
  }
  // Empty when the rows are consecutive.
  std::span<const std::int64_t> rows() const { return rows_; }
  std::int64_t first() const { return first_; }
  void add_to(Fingerprint& fingerprint) const;

 private:
  std::int64_t n_rows_;
  std::int64_t size_;
  std::int64_t first_ = 0;
  std::vector<std::int64_t> rows_;
};

// Throws like SampleSet's constructor.
void check_n_rows(std::int64_t n_rows);
void check_indices(std::int64_t n_rows, std::span<const std::int64_t> indices);

}  // namespace cellfeed::sampling
