// Chi-square tests for the sampling tests: fixed seeds, a limit of 5 sigma (false-alarm rate about
// 3e-7 a test).
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace cellfeed::testing {

// Wilson and Hilferty's approximation of the quantile.
inline double chi_square_limit(double degrees, double sigma = 5) {
  const double t = 2.0 / (9.0 * degrees);
  return degrees * std::pow(1 - t + sigma * std::sqrt(t), 3);
}

inline double chi_square(const std::vector<std::int64_t>& counts,
                         const std::vector<double>& expected) {
  double sum = 0;
  for (std::size_t i = 0; i < counts.size(); ++i) {
    const double d = static_cast<double>(counts[i]) - expected[i];
    if (expected[i] > 0) {
      sum += d * d / expected[i];
    } else if (counts[i] != 0) {
      return INFINITY;
    }
  }
  return sum;
}

inline double chi_square(const std::vector<std::int64_t>& counts, double expected) {
  return chi_square(counts, std::vector<double>(counts.size(), expected));
}

}  // namespace cellfeed::testing
