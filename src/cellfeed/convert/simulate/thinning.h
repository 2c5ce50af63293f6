// Thinning: random loss of counts, as a shallower sequencing run would have had. Pure functions of
// random words. Thread-safe: a WordSource belongs to one thread.
#pragma once

#include <array>
#include <cstdint>

#include "cellfeed/sampling/random.h"

namespace cellfeed::convert {

// The random words of one cell, in order.
class WordSource {
 public:
  WordSource(const sampling::RandomStream& stream, std::uint64_t cell)
      : stream_(stream), cell_(cell) {}
  std::uint32_t next() {
    if (used_ == 4) {
      words_ = stream_.words(block_++, cell_);
      used_ = 0;
    }
    return words_[used_++];
  }
  // Uniform on (0, 1), 53 bits.
  double uniform();

 private:
  const sampling::RandomStream& stream_;
  std::uint64_t cell_;
  std::uint64_t block_ = 0;
  std::array<std::uint32_t, 4> words_{};
  int used_ = 4;
};

// How many of n survive when each is lost with probability q: n - Binomial(n, q). REQUIRES: n >= 0,
// 0 <= q <= 0.5. Exact up to double rounding: bits for small n, inversion for few expected losses,
// else Hoermann's BTRS (1993).
std::int64_t thin_count(std::int64_t n, double q, WordSource& words);

}  // namespace cellfeed::convert
