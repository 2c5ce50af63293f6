#include "cellfeed/series/window_transform.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

// Missing values are passed over.
void find_norm(WindowNorm norm, std::span<const double> x, ColumnUndo& undo) {
  double n = 0, mean = 0, m2 = 0, last = NAN;
  double low = std::numeric_limits<double>::infinity(), high = -low;
  for (const double value : x) {
    if (std::isnan(value)) continue;
    n += 1;
    const double delta = value - mean;
    mean += delta / n;
    m2 += delta * (value - mean);
    low = std::min(low, value);
    high = std::max(high, value);
    last = value;
  }
  if (n == 0) {
    undo.center = NAN;  // nothing is known of what the rest is scaled by
    return;
  }
  if (norm == WindowNorm::kLast) {
    undo.center = last;
    return;
  }
  undo.center = norm == WindowNorm::kZscore ? mean : low;
  const double width = norm == WindowNorm::kZscore ? std::sqrt(m2 / n) : high - low;
  if (high > low && width > 0) undo.scale = width;
}

// Missing values stay so, and are passed over.
template <typename Step>
void take_steps(std::span<double> values, const Step& step) {
  double before = NAN;
  for (double& value : values) {
    const double here = value;
    value = step(here, before);
    if (!std::isnan(here)) before = here;
  }
}

bool read_positive(ColumnScale stored, std::span<double> values) {
  for (double& value : values) {
    const double distance = value * stored.scale;
    value = distance + stored.center;
    if (value <= stored.rounding * (std::abs(distance) + std::abs(stored.center))) return false;
  }
  return true;
}

double last_known(std::span<const double> values) {
  const auto known =
      std::find_if(values.rbegin(), values.rend(), [](double value) { return !std::isnan(value); });
  return known == values.rend() ? NAN : *known;
}

}  // namespace

WindowStep window_step_from_name(std::string_view name) {
  if (name == "none") return WindowStep::kNone;
  if (name == "differences") return WindowStep::kDifferences;
  if (name == "log_returns") return WindowStep::kLogReturns;
  throw_invalid("a step of windows must be none, differences or log_returns, not '{}'", name);
}

WindowNorm window_norm_from_name(std::string_view name) {
  if (name == "none") return WindowNorm::kNone;
  if (name == "zscore") return WindowNorm::kZscore;
  if (name == "last") return WindowNorm::kLast;
  if (name == "minmax") return WindowNorm::kMinMax;
  throw_invalid("a norm of windows must be zscore, last or minmax, not '{}'", name);
}

bool transform_column(ColumnTransform transform, ColumnScale stored, std::span<double> values,
                      std::int64_t lead, std::int64_t window, ColumnUndo& undo) {
  undo = {};
  const auto end = static_cast<std::size_t>(lead + window);
  if (transform.step == WindowStep::kLogReturns && !read_positive(stored, values)) return false;
  undo.last = last_known(values.first(end));
  if (transform.step == WindowStep::kDifferences)
    take_steps(values, [](double value, double before) { return value - before; });
  if (transform.step == WindowStep::kLogReturns)
    take_steps(values, [](double value, double before) { return std::log(value / before); });
  if (transform.norm == WindowNorm::kNone) return true;
  find_norm(transform.norm,
            values.subspan(static_cast<std::size_t>(lead), static_cast<std::size_t>(window)), undo);
  for (double& value : values) value = (value - undo.center) / undo.scale;
  return true;
}

void undo_column(ColumnTransform transform, ColumnScale stored, const ColumnUndo& undo,
                 std::span<double> predictions) {
  double sum = 0;
  for (double& value : predictions) {
    value = value * undo.scale + undo.center;
    if (std::isnan(value)) continue;
    sum += value;
    if (transform.step == WindowStep::kLogReturns) {
      value = undo.last * std::exp(sum);
      continue;
    }
    if (transform.step == WindowStep::kDifferences) value = undo.last + sum;
    value = value * stored.scale + stored.center;
  }
}

}  // namespace cellfeed::series
