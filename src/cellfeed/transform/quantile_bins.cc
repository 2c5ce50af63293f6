#include "cellfeed/transform/quantile_bins.h"

#include <cmath>
#include <cstddef>
#include <vector>

#include "cellfeed/base/random_bits.h"

namespace cellfeed::transform {
namespace {

// numpy's linear interpolation, to the bit: the difference is of floats, the rest of doubles.
double interpolate(float below, float above, double t) {
  const double difference = above - below;
  return t < 0.5 ? below + difference * t : above - difference * (1 - t);
}

void find_edges(std::span<const float> values, std::span<const std::uint32_t> places,
                std::vector<double>& edges) {
  const std::size_t n = places.size();
  const auto value = [&](std::size_t at) { return values[places[n - 1 - at]]; };
  const double step = 1.0 / static_cast<double>(edges.size() - 1);  // as numpy.linspace has it
  for (std::size_t e = 0; e < edges.size(); ++e) {
    const double q = e + 1 == edges.size() ? 1.0 : static_cast<double>(e) * step;
    const double place = static_cast<double>(n - 1) * q;
    const double whole = std::floor(place);
    const auto below = static_cast<std::size_t>(whole);
    edges[e] = below + 1 < n ? interpolate(value(below), value(below + 1), place - whole)
                             : static_cast<double>(value(n - 1));
  }
}

}  // namespace

void to_quantile_bins(std::span<const float> values, std::span<const std::uint32_t> places,
                      std::int32_t n_bins, const std::uint64_t* ties_key, std::span<float> bins) {
  if (places.empty()) return;
  static thread_local std::vector<double> edges;
  edges.resize(static_cast<std::size_t>(n_bins) - 1);
  find_edges(values, places, edges);
  std::size_t n_below = 0;  // edges below the value
  std::size_t n_at = 0;     // edges at it or below
  for (std::size_t i = places.size(); i-- > 0;) {
    const std::uint32_t place = places[i];
    const double value = values[place];
    while (n_below < edges.size() && edges[n_below] < value) ++n_below;
    while (n_at < edges.size() && edges[n_at] <= value) ++n_at;
    std::size_t bin = n_at;
    if (ties_key != nullptr && n_at > n_below + 1)
      bin -= scale_bits(splitmix64(*ties_key, place), n_at - n_below);
    bins[place] = static_cast<float>(bin);
  }
}

}  // namespace cellfeed::transform
