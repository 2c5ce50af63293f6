#include "cellfeed/loader/label_entropy.h"

#include <bit>
#include <cmath>
#include <cstddef>
#include <vector>

namespace cellfeed::loader {
namespace {

struct Count {
  std::int64_t code = -1;
  std::int64_t rows = 0;
};

}  // namespace

double label_entropy_bits(std::span<const std::int64_t> codes) {
  // Open addressing, at most half full.
  std::vector<Count> counts(std::bit_ceil(2 * codes.size() + 1));
  const int shift = 64 - std::countr_zero(counts.size());
  std::int64_t n = 0;
  for (const std::int64_t code : codes) {
    if (code < 0) continue;
    // The high bits of a product with 2^64 over the golden ratio are well spread.
    std::size_t at = counts.size() == 1
                         ? 0
                         : static_cast<std::size_t>(
                               (static_cast<std::uint64_t>(code) * 0x9e3779b97f4a7c15u) >> shift);
    while (counts[at].code >= 0 && counts[at].code != code) at = (at + 1) & (counts.size() - 1);
    counts[at].code = code;
    ++counts[at].rows;
    ++n;
  }
  double bits = 0;
  for (const Count& count : counts)
    if (count.rows > 0) {
      const double p = static_cast<double>(count.rows) / static_cast<double>(n);
      bits -= p * std::log2(p);
    }
  return bits;
}

}  // namespace cellfeed::loader
