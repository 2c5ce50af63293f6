// AliasTable: one of n items with probability proportional to its weight, in O(1) and 12 bytes an
// item.
//
// Thresholds have 63 bits and are computed in doubles, so for n items a probability is off by a
// relative 2^-52 times the ratio of the mean weight to the weight, plus n / 2^64, plus, for the one
// item that takes the rounding of all others, n / 2^52. An item of weight zero is never drawn.
//
// Thread-safe: immutable once made.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "cellfeed/sampling/random.h"

namespace cellfeed::sampling {

class AliasTable {
 public:
  static constexpr std::int64_t kMaxSize = std::int64_t{1} << 32;

  AliasTable() = default;
  // Throws kInvalidArgument above kMaxSize items. REQUIRES: weights finite, none negative, the sum
  // positive and finite.
  explicit AliasTable(std::span<const double> weights);

  // The item for two times 64 random bits: the first chooses a cell, the second the item or its
  // alias.
  std::int64_t draw(std::uint64_t cell_bits, std::uint64_t item_bits) const {
    const std::uint64_t cell = scale_bits(cell_bits, cells_.size());
    const Cell& c = cells_[cell];
    const std::uint64_t threshold = std::uint64_t{c.threshold_high} << 32 | c.threshold_low;
    return (item_bits >> 1) < threshold ? static_cast<std::int64_t>(cell) : c.alias;
  }
  void prefetch(std::uint64_t cell_bits) const {
    __builtin_prefetch(&cells_[scale_bits(cell_bits, cells_.size())]);
  }
  std::int64_t size() const { return static_cast<std::int64_t>(cells_.size()); }
  std::int64_t bytes() const { return size() * static_cast<std::int64_t>(sizeof(Cell)); }

 private:
  struct Cell {  // one cache line, mostly; 12 bytes
    std::uint32_t alias;
    std::uint32_t threshold_low;
    std::uint32_t threshold_high;
  };
  static_assert(sizeof(Cell) == 12);

  void set(std::int64_t item, double share, std::int64_t alias);

  std::vector<Cell> cells_;
};

// round(share * 2^63) for a share in [0, 1].
std::uint64_t to_threshold(double share);

// Compensated sum of non-negative values: the rounding stays near 1e-16 for any number of values.
double sum_of(std::span<const double> values);

}  // namespace cellfeed::sampling
