#include "cellfeed/series/build_options.h"

#include <algorithm>
#include <string>
#include <vector>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

void check_fit_mask(const BuildOptions& options) {
  const RowColumns& columns = options.columns;
  if (columns.fit_mask.empty()) return;
  if (options.scaler == ScalerKind::kNone || !options.given_scaler.empty())
    throw_invalid("fit_mask is of a scaler that is fitted, and none is");
  for (const auto* others : {&columns.features, &columns.time, &columns.static_columns})
    if (std::ranges::find(*others, columns.fit_mask) != others->end())
      throw_invalid("the column '{}' is a mask (fit_mask), and nothing else", columns.fit_mask);
}

void check_statics(const BuildOptions& options) {
  const RowColumns& columns = options.columns;
  std::vector<std::string> sorted = columns.static_columns;
  std::ranges::sort(sorted);
  if (const auto twice = std::ranges::adjacent_find(sorted); twice != sorted.end())
    throw_invalid("the static column '{}' is named twice", *twice);
  for (const std::string& name : sorted)
    for (const auto* others : {&columns.features, &columns.time, &options.target})
      if (std::ranges::find(*others, name) != others->end())
        throw_invalid("the column '{}' is static (one value an entity), and no feature or time",
                      name);
}

}  // namespace

void check_build_options(const BuildOptions& options) {
  const RowColumns& columns = options.columns;
  if (columns.time.size() > 6)
    throw_invalid("time takes one column, or those of year, month, ..., second, not {} columns",
                  columns.time.size());
  if (!columns.time_unit.empty()) {
    nanoseconds_of_unit(columns.time_unit);
    if (columns.time.size() != 1) throw_invalid("time_unit needs one column of time");
  }
  if (!columns.entity.empty() && !columns.entity_pattern.empty())
    throw_invalid("entity is a column or a pattern, not both");
  if (!is_float(options.dtype))
    throw_invalid("dtype must be float32 or float64, not {}", dtype_name(options.dtype));
  if (options.window < 0 || options.horizon < 1 || options.stride < 1)
    throw_invalid("window, horizon and stride must be at least 1");
  const bool has_bound = !options.fit_until.empty();
  const bool is_given = !options.given_scaler.empty();
  if (options.scaler == ScalerKind::kNone && !is_given &&
      (options.scale == ScaleOf::kEntity || has_bound))
    throw_invalid("scale and fit_until need a scaler");
  if (is_given && has_bound) throw_invalid("fit_until is of a scaler to be fitted; one was given");
  if (columns.time.empty() && has_bound) throw_invalid("fit_until needs a column of time");
  if (!options.freq.empty() && columns.time.empty())
    throw_invalid("freq is the time from row to row, and needs a column of time");
  if (!options.freq.empty() && !parse_integer(options.freq) && !parse_duration(options.freq))
    throw_invalid("freq must be a length of time such as 15min, 3h or 7D, not '{}'", options.freq);
  if (columns.time.empty() && options.duplicates != Duplicates::kError)
    throw_invalid("duplicates are rows of one time, and need a column of time");
  // What kind of times they are is known once they were read.
  if (has_bound && !parse_integer(options.fit_until) && !parse_time(options.fit_until))
    throw_invalid("fit_until must be a time such as 2024-03-01, or a whole number, not '{}'",
                  options.fit_until);
  if (!options.numeric.empty() && !columns.features.empty())
    throw_invalid(
        "numeric adds to the features that are found, and features are named: name '{}' there",
        options.numeric[0]);
  check_text_numbers(columns.numbers);
  check_fit_mask(options);
  check_statics(options);
}

}  // namespace cellfeed::series
