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

std::int64_t StepCounts::median() const {
  constexpr std::uint64_t kMost =
      std::numeric_limits<std::int64_t>::max() / static_cast<std::int64_t>(kMediansOfGap);
  std::int64_t n = 0;
  for (std::size_t b = 0; b < kBuckets; ++b)
    if ((n += counts_[b]) > (n_ - 1) / 2 && n_ > 0)
      return static_cast<std::int64_t>(std::min(longest_[b], kMost));
  return 0;
}

}  // namespace cellfeed::series
