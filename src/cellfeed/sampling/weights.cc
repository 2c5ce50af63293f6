// Named errors for weights that no draw can follow.
#include "cellfeed/sampling/weights.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/alias_table.h"
#include "cellfeed/sampling/permutation.h"

namespace cellfeed::sampling {

std::int64_t check_weights(std::span<const double> weights) {
  std::int64_t positive = 0;
  for (std::size_t i = 0; i < weights.size(); ++i) {
    if (!(weights[i] >= 0) || std::isinf(weights[i])) {
      throw_invalid("weights must be finite and not negative: weights[{}] is {}", i, weights[i]);
    }
    positive += weights[i] > 0 ? 1 : 0;
  }
  if (positive == 0) throw_invalid("all {} weights are zero: nothing can be drawn", weights.size());
  const double sum = sum_of(weights);
  if (std::isinf(sum) ||
      sum / static_cast<double>(weights.size()) < std::numeric_limits<double>::min()) {
    throw_invalid("the sum of the weights is {}, out of the range of a double: scale them", sum);
  }
  return positive;
}

std::vector<double> scaled_for_keys(std::span<const double> weights) {
  constexpr int kRange = 900;
  const auto heaviest = std::max_element(weights.begin(), weights.end());
  const int exponent = std::ilogb(*heaviest);
  std::vector<double> out(weights.begin(), weights.end());
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (out[i] > 0 && std::ilogb(out[i]) < exponent - kRange) {
      throw_invalid(
          "weights[{}] is {} and weights[{}] is {}: draws without replacement need weights within "
          "a factor of 2^{}; set the small ones to 0 or draw with replacement",
          i, out[i], heaviest - weights.begin(), *heaviest, kRange);
    }
    out[i] = std::scalbn(out[i], -exponent);
  }
  return out;
}

std::int64_t positive_or(std::optional<std::int64_t> given, std::int64_t fallback,
                         const char* name) {
  const std::int64_t value = given.value_or(fallback);
  if (value <= 0) throw_invalid("{} is {}; it must be at least 1", name, value);
  if (value > Permutation::kMaxSize)
    throw_invalid("{} is {}; it must be at most 2^62", name, value);
  return value;
}

std::int64_t round_size(std::optional<std::int64_t> sampling_size, std::int64_t total,
                        std::int64_t n_drawable) {
  const std::int64_t size =
      positive_or(sampling_size, std::min(total, n_drawable), "sampling_size");
  if (size > n_drawable) {
    throw_invalid(
        "sampling_size {} is more than the {} samples that can be drawn; without replacement a "
        "round "
        "draws each at most once",
        size, n_drawable);
  }
  return size;
}

}  // namespace cellfeed::sampling
