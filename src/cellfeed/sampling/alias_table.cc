// Alias table filled by sweeping: one pointer over the light items, one over the heavy ones, no
// work lists. Source: Huebschle-Schneider and Sanders, "Parallel Weighted Random Sampling", 2022,
// section 4.2.
#include "cellfeed/sampling/alias_table.h"

#include <algorithm>
#include <cmath>

#include "cellfeed/base/error.h"

namespace cellfeed::sampling {

std::uint64_t to_threshold(double share) {
  return static_cast<std::uint64_t>(std::ldexp(std::clamp(share, 0.0, 1.0), 63));
}

double sum_of(std::span<const double> values) {
  constexpr std::size_t kPiece = 128;
  double sum = 0;
  double lost = 0;  // Neumaier's compensation
  for (std::size_t begin = 0; begin < values.size(); begin += kPiece) {
    double piece = 0;
    for (const double v : values.subspan(begin, std::min(kPiece, values.size() - begin)))
      piece += v;
    const double next = sum + piece;
    lost += sum >= piece ? (sum - next) + piece : (piece - next) + sum;
    sum = next;
  }
  return std::isinf(sum) ? sum : sum + lost;
}

void AliasTable::set(std::int64_t item, double share, std::int64_t alias) {
  const std::uint64_t threshold = to_threshold(share);
  cells_[static_cast<std::size_t>(item)] = {static_cast<std::uint32_t>(alias),
                                            static_cast<std::uint32_t>(threshold),
                                            static_cast<std::uint32_t>(threshold >> 32)};
}

AliasTable::AliasTable(std::span<const double> weights) {
  const auto n = static_cast<std::int64_t>(weights.size());
  if (n > kMaxSize) {
    throw_invalid("an alias table holds at most 2^32 weights; got {}: use a larger block_size", n);
  }
  cells_.resize(weights.size());
  const double mean = sum_of(weights) / static_cast<double>(n);
  // Weights in units of the mean: a cell holds exactly 1.
  const auto scaled = [&](std::int64_t i) { return weights[static_cast<std::size_t>(i)] / mean; };
  const auto next_light = [&](std::int64_t i) {
    while (i < n && weights[static_cast<std::size_t>(i)] > mean) ++i;
    return i;
  };
  const auto next_heavy = [&](std::int64_t i) {
    while (i < n && weights[static_cast<std::size_t>(i)] <= mean) ++i;
    return i;
  };
  // Rounding may leave a little at either end; the heaviest item takes it.
  const std::int64_t heaviest = std::max_element(weights.begin(), weights.end()) - weights.begin();
  std::int64_t light = next_light(0);
  std::int64_t heavy = next_heavy(0);
  double left = heavy < n ? scaled(heavy) : 0;  // of the heavy item, not yet given to a cell
  while (heavy < n) {
    if (left > 1 && light < n) {
      set(light, scaled(light), heavy);
      left = (left - 1) + scaled(light);
      light = next_light(light + 1);
      continue;
    }
    const std::int64_t next = next_heavy(heavy + 1);
    set(heavy, left, next < n ? next : heavy);
    left = next < n ? (left - 1) + scaled(next) : 0;
    heavy = next;
  }
  for (; light < n; light = next_light(light + 1)) set(light, scaled(light), heaviest);
}

}  // namespace cellfeed::sampling
