// The pass over rows that finds what a scaler needs: statistics of each entity and of all together.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/series/entity_rows.h"
#include "cellfeed/series/metadata.h"
#include "cellfeed/series/scaler.h"
#include "cellfeed/series/statistics.h"
#include "cellfeed/series/work.h"

namespace cellfeed::series {

// Of one entity's rows in their final order.
struct EntitySummary {
  RowCounts counts;
  std::int64_t first_time = 0, last_time = 0;
  std::int64_t fit_last_time = kNoTime;   // of the rows that a scaler looks at; none: kNoTime
  std::vector<ColumnStatistics> columns;  // of the rows that a scaler looks at
  std::vector<double> quartiles;          // lower, middle, upper of each feature, where asked for
  // Steps between times (gaps.h), and the rows before which there is a gap, counted in the entity.
  std::int64_t median_step = 0;
  std::vector<std::int64_t> gaps;
};

inline EntityTimes times_of(const EntitySummary& summary) {
  return {summary.first_time, summary.last_time, summary.median_step, summary.gaps};
}

// Rows that statistics are of.
struct FitRows {
  const SpilledRows& rows;
  const RowPolicy& policy;
  // Rows at this time or later are not looked at; empty: all are.
  std::optional<std::int64_t> until{};
  // Records end with a mask; rows whose mask is not 1 are not looked at.
  bool has_mask = false;
  bool sees_all = false;  // whatever `until` and the mask say

  std::size_t n_features() const { return rows.n_values() - (has_mask ? 1 : 0); }
};

// What is asked of each entity; a function that is empty says no, or nothing.
struct SummaryRules {
  std::function<bool(std::int64_t)> has_quartiles;
  std::function<bool(std::int64_t)> sees_all_rows;  // whatever `until` and the mask are
  std::function<RowsBefore(std::int64_t)> before;
};

// Calls fn(entity, summary) for every entity, in their order, on one thread at a time. Throws what
// each_row does, and kCancelled.
void each_summary(const FitRows& fit, const SummaryRules& rules, SeriesWork& work,
                  const std::function<void(std::int64_t, const EntitySummary&)>& fn);

// Lower, middle and upper of each feature, over all entities.
std::vector<double> global_quartiles(const FitRows& fit, SeriesWork& work);

// The numbers of a scaler for these features and, where it has some for each entity, entities.
// Throws kInvalidArgument naming what it does not know.
Scaler scaler_for(const Scaler& given, std::span<const std::string> features,
                  std::span<const std::string> entities);

}  // namespace cellfeed::series
