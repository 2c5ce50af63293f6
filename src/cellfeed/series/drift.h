// Drift: how new values differ from those that a scaler was fitted on. Not thread-safe.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/series/scaler.h"
#include "cellfeed/series/statistics.h"

namespace cellfeed::series {

// Of scale = entity, each value is seen beside those of its entity. Numbers are NaN where they
// cannot be known: the scaler came from elsewhere, or its values were all the same.
struct FeatureDrift {
  std::string feature;
  double mean_shift = 0;    // (mean of the new - mean of the old) / standard deviation of the old
  double spread_ratio = 0;  // standard deviation of the new / of the old
  // The smallest and largest of the new, where the old lie from 0 to 1.
  double low = 0, high = 0;
  std::int64_t n = 0;  // values that the first two are of
};

class Drift {
 public:
  // Lifetime: of the scaler.
  explicit Drift(const Scaler& scaler);
  // Statistics of new rows of an entity, by its number in the scaler.
  void add(std::int64_t entity, std::span<const ColumnStatistics> columns);
  std::vector<FeatureDrift> features() const;

 private:
  const Scaler& scaler_;
  std::vector<ColumnStatistics> in_deviations_, in_ranges_;  // of each feature
};

// Features whose mean moved by more than half a standard deviation (and three standard errors of
// so few values), or whose spread, of 30 values or more, is not half to twice what it was; as
// sentences.
std::vector<std::string> drift_warnings(std::span<const FeatureDrift> drift);

}  // namespace cellfeed::series
