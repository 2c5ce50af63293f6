// The rows of one entity in their final order: sorted by time, repeated times and missing values
// dealt with as was asked. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

#include "cellfeed/series/spilled_rows.h"

namespace cellfeed::series {

enum class Duplicates { kError, kFirst, kLast, kMean };
std::string_view duplicates_name(Duplicates duplicates);  // "error", "first", "last", "mean"
Duplicates duplicates_from_name(std::string_view name);   // throws kInvalidArgument

struct RowPolicy {
  bool sort = true;
  Duplicates duplicates = Duplicates::kError;
  Missing missing = Missing::kError;
  TimeKind kind = TimeKind::kRow;
  // From row to row; a row that is not there has no value of any feature. 0: rows are as they are.
  std::int64_t freq = 0;
};

struct RowCounts {
  std::int64_t n_rows = 0;     // handed out
  std::int64_t n_merged = 0;   // left out or averaged for their repeated time
  std::int64_t n_dropped = 0;  // left out for a missing value
  std::int64_t n_filled = 0;   // not there, and added for the frequency; of those that were kept
};

// Rows of the entity that are stored already: what kFfill goes on with, and kRow counts on from.
struct RowsBefore {
  std::int64_t n_rows = 0;
  std::vector<double> last{};  // of the features; empty where n_rows is 0
  std::int64_t last_time = 0;
  std::int64_t median_step = 0;  // 0: of fewer than two rows
};

// The next n rows.
using RowSink = std::function<void(const RecordRows& rows, std::int64_t n)>;

// How many of these n rows, whose times rise, are before `time`.
std::int64_t rows_before(const RecordRows& rows, std::int64_t n, std::int64_t time);

// memory: bytes that sorting may take. Throws kCorruptData, naming entity and time, for repeated
// times and, without sort, decreasing ones; kInvalidArgument where rows that are out of order do
// not fit `memory`.
RowCounts each_row(const SpilledRows& rows, std::int64_t entity, const RowPolicy& policy,
                   std::int64_t memory, const RowSink& sink, const RowsBefore& before = {});

}  // namespace cellfeed::series
