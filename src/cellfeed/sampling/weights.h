// Checks of weights and sizes that the weighted strategies share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

namespace cellfeed::sampling {

// Number of positive weights. Throws kInvalidArgument, with position and value, for a negative, NaN
// or infinite weight, and for weights that are all zero or whose sum is out of the range of a
// double.
std::int64_t check_weights(std::span<const double> weights);

// The weights times a power of two, so that the largest is in [1, 2): exact, and with room for the
// keys of draws without replacement. Throws kInvalidArgument where a positive one is more than
// 2^900 times smaller than the largest.
std::vector<double> scaled_for_keys(std::span<const double> weights);

// The value given, or the default. Throws kInvalidArgument unless positive.
std::int64_t positive_or(std::optional<std::int64_t> given, std::int64_t fallback,
                         const char* name);

// Samples of a round without replacement: sampling_size or min(total, n_drawable). Throws
// kInvalidArgument where it is above n_drawable.
std::int64_t round_size(std::optional<std::int64_t> sampling_size, std::int64_t total,
                        std::int64_t n_drawable);

}  // namespace cellfeed::sampling
