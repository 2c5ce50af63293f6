// The rows of one entity in their final order: sorted by time, repeated times and missing values
// dealt with as was asked. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <functional>

#include "cellfeed/series/spilled_rows.h"

namespace cellfeed::series {

enum class Duplicates { kError, kFirst, kLast, kMean };

struct RowPolicy {
  bool sort = true;
  Duplicates duplicates = Duplicates::kError;
  Missing missing = Missing::kError;
  TimeKind kind = TimeKind::kRow;
};

struct RowCounts {
  std::int64_t n_rows = 0;     // handed out
  std::int64_t n_merged = 0;   // left out or averaged for their repeated time
  std::int64_t n_dropped = 0;  // left out for a missing value
};

using RowSink = std::function<void(std::int64_t time, const double* features)>;

// memory: bytes that sorting may take. Throws kCorruptData, naming entity and time, for repeated
// times and, without sort, decreasing ones; kInvalidArgument where rows that are out of order do
// not fit `memory`.
RowCounts each_row(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                   std::int64_t memory, const RowSink& sink);

}  // namespace cellfeed::series
