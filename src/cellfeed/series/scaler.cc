#include "cellfeed/series/scaler.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"
#include "cellfeed/series/json_text.h"

namespace cellfeed::series {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::array<std::string_view, 4> kKinds{"none", "standard", "minmax", "robust"};
constexpr double kEpsilon = std::numeric_limits<double>::epsilon();

// scikit-learn's: what rounding alone makes of equal values.
bool is_constant(const ColumnStatistics& column) {
  const auto n = static_cast<double>(column.n);
  const double bound = n * kEpsilon * column.variance();
  const double of_mean = n * column.mean * kEpsilon;
  return column.variance() <= bound + of_mean * of_mean;
}

// Of a key that may be missing.
std::optional<std::string> optional_text(const Json& json, const char* name) {
  const auto at = json.find(name);
  if (at == json.end() || at->is_null()) return std::nullopt;
  return at->get<std::string>();
}

// A list, or a list for each entity.
template <typename T>
Json numbers_json(const Scaler& scaler, const std::vector<T>& values) {
  if (scaler.of == ScaleOf::kGlobal) return values;
  Json lists = Json::array();
  const std::size_t width = scaler.features.size();
  for (std::size_t i = 0; i < values.size(); i += width)
    lists.push_back(std::vector<T>(values.begin() + static_cast<std::ptrdiff_t>(i),
                                   values.begin() + static_cast<std::ptrdiff_t>(i + width)));
  return lists;
}

template <typename T>
std::vector<T> parse_numbers(const Scaler& scaler, const Json& json, const std::string& path,
                             const char* name) {
  const std::size_t n_sets = scaler.of == ScaleOf::kEntity ? scaler.entities.size() : 1;
  std::vector<T> values;
  const auto add = [&](const Json& list) {
    for (const auto& value : list)
      if constexpr (std::is_floating_point_v<T>)  // null: beyond what float64 holds
        values.push_back(value.is_null() ? NAN : value.template get<T>());
      else
        values.push_back(value.template get<T>());
  };
  if (scaler.of == ScaleOf::kGlobal)
    add(json.at(name));
  else
    for (const auto& list : json.at(name)) add(list);
  if (values.size() != n_sets * scaler.features.size())
    throw_error(ErrorKind::kCorruptData, path, "'{}' has {} numbers where {} were expected", name,
                values.size(), n_sets * scaler.features.size());
  return values;
}

}  // namespace

std::string_view scaler_kind_name(ScalerKind kind) {
  return kKinds[static_cast<std::size_t>(kind)];
}

ScalerKind scaler_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKinds.size(); ++i)
    if (kKinds[i] == name) return static_cast<ScalerKind>(i);
  throw_invalid("scaler must be standard, minmax, robust or none, not '{}'", name);
}

std::string_view scale_of_name(ScaleOf of) { return of == ScaleOf::kGlobal ? "global" : "entity"; }

ScaleOf scale_of_from_name(std::string_view name) {
  if (name == "global") return ScaleOf::kGlobal;
  if (name == "entity") return ScaleOf::kEntity;
  throw_invalid("scale must be global or entity, not '{}'", name);
}

void Scaler::require_finite(std::size_t feature, const ColumnStatistics& column, double middle,
                            double width) const {
  if (std::isfinite(middle) && std::isfinite(width)) return;
  const std::size_t set = n.size() / features.size();
  throw_error(ErrorKind::kPrecision, "",
              "{}the feature '{}' has values from {} to {}, whose {} scale is beyond what float64 "
              "holds: leave out what stands for no value (missing), or take another scaler",
              of == ScaleOf::kEntity ? fmt::format("entity '{}': ", entities[set]) : "",
              features[feature], column.min, column.max, scaler_kind_name(kind));
}

std::vector<std::size_t> Scaler::add(std::span<const ColumnStatistics> columns,
                                     std::span<const double> quartiles) {
  std::vector<std::size_t> constant;
  for (std::size_t f = 0; f < columns.size(); ++f) {
    const ColumnStatistics& column = columns[f];
    double middle = 0, width = 1;
    bool is_flat = column.min == column.max;
    if (kind == ScalerKind::kStandard) {
      middle = column.mean;
      width = std::sqrt(column.variance());
      is_flat = is_constant(column);
    } else if (kind == ScalerKind::kMinMax) {
      middle = column.min;
      width = column.max - column.min;
      is_flat = width < 10 * kEpsilon;
    } else if (kind == ScalerKind::kRobust) {
      middle = quartiles[3 * f + 1];
      width = quartiles[3 * f + 2] - quartiles[3 * f];
      lower.push_back(quartiles[3 * f]);
      upper.push_back(quartiles[3 * f + 2]);
      is_flat = width < 10 * kEpsilon;
    }
    require_finite(f, column, middle, width);
    if (is_flat) {
      constant.push_back(f);
      width = 1;
    }
    center.push_back(middle);
    scale.push_back(width);
    n.push_back(column.n);
    mean.push_back(column.mean);
    variance.push_back(column.variance());
    min.push_back(column.min);
    max.push_back(column.max);
  }
  return constant;
}

void Scaler::copy_numbers(const Scaler& other, std::size_t i) {
  center.push_back(other.center[i]);
  scale.push_back(other.scale[i]);
  n.push_back(other.n[i]);
  mean.push_back(other.mean[i]);
  variance.push_back(other.variance[i]);
  min.push_back(other.min[i]);
  max.push_back(other.max[i]);
  if (kind != ScalerKind::kRobust) return;
  lower.push_back(other.lower[i]);
  upper.push_back(other.upper[i]);
}

std::string scaler_json(const Scaler& scaler) {
  Json json = {{"format", "cellfeed-scaler"},
               {"version", 1},
               {"kind", scaler_kind_name(scaler.kind)},
               {"scale", scale_of_name(scaler.of)},
               {"fit_until", text_or_null(scaler.fit_until)},
               {"fit_mask", text_or_null(scaler.fit_mask)},
               {"fit_last_time", text_or_null(scaler.fit_last_time)},
               {"features", scaler.features}};
  if (scaler.of == ScaleOf::kEntity) json["entities"] = scaler.entities;
  json["center"] = numbers_json(scaler, scaler.center);
  json["scale_by"] = numbers_json(scaler, scaler.scale);
  json["n"] = numbers_json(scaler, scaler.n);
  json["mean"] = numbers_json(scaler, scaler.mean);
  json["variance"] = numbers_json(scaler, scaler.variance);
  json["min"] = numbers_json(scaler, scaler.min);
  json["max"] = numbers_json(scaler, scaler.max);
  if (scaler.kind == ScalerKind::kRobust) {
    json["lower_quartile"] = numbers_json(scaler, scaler.lower);
    json["upper_quartile"] = numbers_json(scaler, scaler.upper);
  }
  return json.dump(1) + "\n";
}

Scaler parse_scaler(const std::string& text, const std::string& path) {
  require_shallow_json(text, path);
  try {
    const Json json = Json::parse(text);
    if (json.at("format") != "cellfeed-scaler" || json.at("version") != 1)
      throw Error(ErrorKind::kUnsupported, "is no scaler of version 1", path);
    Scaler scaler;
    scaler.kind = scaler_kind_from_name(json.at("kind").get<std::string>());
    scaler.of = scale_of_from_name(json.at("scale").get<std::string>());
    if (!json.at("fit_until").is_null()) scaler.fit_until = json.at("fit_until");
    scaler.fit_mask = optional_text(json, "fit_mask");
    scaler.fit_last_time = optional_text(json, "fit_last_time");
    scaler.features = json.at("features").get<std::vector<std::string>>();
    if (scaler.of == ScaleOf::kEntity)
      scaler.entities = json.at("entities").get<std::vector<std::string>>();
    scaler.center = parse_numbers<double>(scaler, json, path, "center");
    scaler.scale = parse_numbers<double>(scaler, json, path, "scale_by");
    for (std::size_t i = 0; i < scaler.scale.size(); ++i)
      if (!std::isfinite(scaler.center[i]) || !std::isfinite(scaler.scale[i]) ||
          scaler.scale[i] == 0)
        throw Error(ErrorKind::kCorruptData, "a scale is 0, or no finite number", path);
    scaler.n = parse_numbers<std::int64_t>(scaler, json, path, "n");
    scaler.mean = parse_numbers<double>(scaler, json, path, "mean");
    scaler.variance = parse_numbers<double>(scaler, json, path, "variance");
    scaler.min = parse_numbers<double>(scaler, json, path, "min");
    scaler.max = parse_numbers<double>(scaler, json, path, "max");
    if (scaler.kind == ScalerKind::kRobust) {
      scaler.lower = parse_numbers<double>(scaler, json, path, "lower_quartile");
      scaler.upper = parse_numbers<double>(scaler, json, path, "upper_quartile");
    }
    return scaler;
  } catch (const nlohmann::json::exception& error) {
    throw_error(ErrorKind::kCorruptData, path, "is no scaler: {}", error.what());
  }
}

}  // namespace cellfeed::series
