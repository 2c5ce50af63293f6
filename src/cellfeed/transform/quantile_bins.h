// Values of a cell in bins of equal counts, as scGPT has them. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::transform {

// Bin 0, and two edges or more.
inline constexpr std::int32_t kFewestBins = 3;

// The bin of each value, 1 to n_bins - 1, into bins[index]. Edges are the quantiles 0, 1 / (n_bins
// - 2), ..., 1 of the values by linear interpolation (numpy.quantile, of which they are the
// numbers). With r edges below a value and l edges at it or below, its bin is l where l <= r + 1,
// and else one of r + 1 to l: drawn, each as likely, from ties_key and the value's place; l where
// there is no key. REQUIRES: places as rank_places gives them of values; bins has room for each
// value, and may be those.
void to_quantile_bins(std::span<const float> values, std::span<const std::uint32_t> places,
                      std::int32_t n_bins, const std::uint64_t* ties_key, std::span<float> bins);

}  // namespace cellfeed::transform
