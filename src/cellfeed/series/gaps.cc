#include "cellfeed/series/gaps.h"

#include <algorithm>
#include <bit>
#include <limits>

namespace cellfeed::series {

void StepCounts::add(std::uint64_t step) {
  const auto n_bits = static_cast<std::size_t>(std::bit_width(step));
  const std::size_t bucket = step < 16 ? step : (n_bits - 4) * 16 + (step >> (n_bits - 5)) % 16;
  ++counts_[bucket];
  longest_[bucket] = std::max(longest_[bucket], step);
  ++n_;
}

std::int64_t StepCounts::usual() const {
  constexpr std::uint64_t kMost =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(kUsualStepsOfGap);
  std::int64_t n_longer = n_ / 20 + 1;
  std::uint64_t found = 0;
  for (std::size_t b = kBuckets; b-- > 0 && n_longer >= 0;) {
    if (counts_[b] == 0) continue;
    found = longest_[b];
    n_longer -= counts_[b];
  }
  return static_cast<std::int64_t>(std::min(found, kMost));
}

}  // namespace cellfeed::series
