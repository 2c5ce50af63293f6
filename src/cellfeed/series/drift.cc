#include "cellfeed/series/drift.h"

#include <fmt/format.h>

#include <cmath>

namespace cellfeed::series {
namespace {

constexpr double kMostShift = 0.5, kMostErrors = 3, kMostRatio = 2;
constexpr std::int64_t kEnoughForSpread = 30;

ColumnStatistics in_units(const ColumnStatistics& column, double center, double unit) {
  return {.n = column.n,
          .mean = (column.mean - center) / unit,
          .m2 = column.m2 / (unit * unit),
          .min = (column.min - center) / unit,
          .max = (column.max - center) / unit};
}

}  // namespace

Drift::Drift(const Scaler& scaler)
    : scaler_(scaler), in_deviations_(scaler.features.size()), in_ranges_(scaler.features.size()) {}

void Drift::add(std::int64_t entity, std::span<const ColumnStatistics> columns) {
  const std::size_t first = scaler_.first_of(entity);
  for (std::size_t f = 0; f < columns.size(); ++f) {
    const std::size_t i = first + f;
    const double range = scaler_.max[i] - scaler_.min[i];
    if (scaler_.variance[i] > 0)
      in_deviations_[f].merge(
          in_units(columns[f], scaler_.mean[i], std::sqrt(scaler_.variance[i])));
    if (range > 0 && std::isfinite(range))
      in_ranges_[f].merge(in_units(columns[f], scaler_.min[i], range));
  }
}

std::vector<FeatureDrift> Drift::features() const {
  std::vector<FeatureDrift> found;
  for (std::size_t f = 0; f < scaler_.features.size(); ++f) {
    FeatureDrift drift{scaler_.features[f], NAN, NAN, NAN, NAN, in_deviations_[f].n};
    if (in_deviations_[f].n > 0) {
      drift.mean_shift = in_deviations_[f].mean;
      drift.spread_ratio = std::sqrt(in_deviations_[f].variance());
    }
    if (in_ranges_[f].n > 0) {
      drift.low = in_ranges_[f].min;
      drift.high = in_ranges_[f].max;
    }
    found.push_back(drift);
  }
  return found;
}

std::vector<std::string> drift_warnings(std::span<const FeatureDrift> drift) {
  std::vector<std::string> warnings;
  for (const FeatureDrift& d : drift) {
    if (d.n == 0) continue;
    const bool is_wide = d.spread_ratio > kMostRatio || d.spread_ratio < 1 / kMostRatio;
    const double most = kMostShift + kMostErrors / std::sqrt(static_cast<double>(d.n));
    // Of huge values it is no number.
    if (!(std::abs(d.mean_shift) <= most) || (is_wide && d.n >= kEnoughForSpread))
      warnings.push_back(fmt::format(
          "'{}' is not what the scaler was fitted on: its mean moved by {:.2f} standard "
          "deviations, and its spread is {:.2f} times what it was",
          d.feature, d.mean_shift, d.spread_ratio));
  }
  return warnings;
}

}  // namespace cellfeed::series
