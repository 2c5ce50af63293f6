#include "cellfeed/convert/simulate/thinning.h"

#include <cmath>

namespace cellfeed::convert {
namespace {

constexpr std::int64_t kBitwiseCount = 16;
constexpr double kInversionMean = 10;

double log_factorial(double k) {
  int sign = 0;
  return ::lgamma_r(k + 1, &sign);
}

// Sequential search from 0: about n * q steps.
std::int64_t binomial_by_inversion(std::int64_t n, double q, WordSource& words) {
  const double odds = q / (1 - q);
  const double start = std::exp(static_cast<double>(n) * std::log1p(-q));
  for (;;) {
    double u = words.uniform();
    double probability = start;
    for (std::int64_t k = 0; k <= n; ++k) {
      if (u <= probability) return k;
      u -= probability;
      probability *= odds * static_cast<double>(n - k) / static_cast<double>(k + 1);
    }
  }
}

// W. Hoermann, "The generation of binomial random variates", J. Stat. Comput. Simul. 46 (1993),
// algorithm BTRS.
std::int64_t binomial_by_rejection(std::int64_t count, double q, WordSource& words) {
  const auto n = static_cast<double>(count);
  const double spread = std::sqrt(n * q * (1 - q));
  const double b = 1.15 + 2.53 * spread;
  const double a = -0.0873 + 0.0248 * b + 0.01 * q;
  const double c = n * q + 0.5;
  const double v_squeeze = 0.92 - 4.2 / b;
  const double alpha = (2.83 + 5.1 / b) * spread;
  const double log_odds = std::log(q / (1 - q));
  const double mode = std::floor((n + 1) * q);
  const double h = log_factorial(mode) + log_factorial(n - mode);
  for (;;) {
    const double u = words.uniform() - 0.5;
    double v = words.uniform();
    const double us = 0.5 - std::abs(u);
    const double k = std::floor((2 * a / us + b) * u + c);
    if (k < 0 || k > n) continue;
    if (us >= 0.07 && v <= v_squeeze) return static_cast<std::int64_t>(k);
    v = std::log(v * alpha / (a / (us * us) + b));
    if (v <= h - log_factorial(k) - log_factorial(n - k) + (k - mode) * log_odds)
      return static_cast<std::int64_t>(k);
  }
}

}  // namespace

double WordSource::uniform() {
  const std::uint64_t high = next(), low = next();
  return (static_cast<double>(((high << 32) | low) >> 11) + 0.5) * 0x1p-53;
}

std::int64_t thin_count(std::int64_t n, double q, WordSource& words) {
  if (n <= kBitwiseCount) {
    const auto lost_below = static_cast<std::uint64_t>(q * 0x1p32);
    std::int64_t kept = 0;
    for (std::int64_t i = 0; i < n; ++i) kept += words.next() >= lost_below ? 1 : 0;
    return kept;
  }
  if (q <= 0) return n;
  const double mean = static_cast<double>(n) * q;
  return n - (mean < kInversionMean ? binomial_by_inversion(n, q, words)
                                    : binomial_by_rejection(n, q, words));
}

}  // namespace cellfeed::convert
