// Scaler: how stored values were made of those that were read: (value - center) / scale, for each
// feature, over all rows or those of an entity. scaler.json.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/series/statistics.h"

namespace cellfeed::series {

inline constexpr const char* kScalerName = "scaler.json";

enum class ScalerKind { kNone, kStandard, kMinMax, kRobust };
enum class ScaleOf { kGlobal, kEntity };

std::string_view scaler_kind_name(ScalerKind kind);
ScalerKind scaler_kind_from_name(std::string_view name);  // throws kInvalidArgument
std::string_view scale_of_name(ScaleOf of);
ScaleOf scale_of_from_name(std::string_view name);

struct Scaler {
  ScalerKind kind = ScalerKind::kNone;
  ScaleOf of = ScaleOf::kGlobal;
  std::vector<std::string> features;
  std::vector<std::string> entities;     // of kEntity
  std::optional<std::string> fit_until;  // rows before this time were looked at; empty: all
  std::optional<std::string> fit_mask;   // rows that this column marks were; empty: all
  // Time of the last row that was looked at; empty where there is no time, or it is not known.
  std::optional<std::string> fit_last_time;
  // Of each feature; of kEntity of each entity's features, one entity after another.
  std::vector<double> center, scale;
  std::vector<std::int64_t> n;                   // values looked at
  std::vector<double> mean, variance, min, max;  // of them
  std::vector<double> lower, upper;              // of kRobust: the quartiles

  // Where the numbers of an entity begin.
  std::size_t first_of(std::int64_t entity) const {
    return of == ScaleOf::kEntity ? static_cast<std::size_t>(entity) * features.size() : 0;
  }
  // Appends the numbers of one more set of features. quartiles: lower, middle, upper of each; empty
  // but for kRobust. Returns the features whose values are all the same: their scale is 1.
  std::vector<std::size_t> add(std::span<const ColumnStatistics> columns,
                               std::span<const double> quartiles);
  // Throws kPrecision naming feature and entity where huge values have no scale.
  void require_finite(std::size_t feature, const ColumnStatistics& column, double middle,
                      double width) const;
  // Appends the numbers that another has at this place.
  void copy_numbers(const Scaler& other, std::size_t i);
};

std::string scaler_json(const Scaler& scaler);
// Throws kCorruptData naming `path`.
Scaler parse_scaler(const std::string& text, const std::string& path);

}  // namespace cellfeed::series
