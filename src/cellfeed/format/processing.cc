#include "cellfeed/format/processing.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>
#include <set>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"

namespace cellfeed::format {
namespace {

// Far beyond what is written, and little enough to be copied into any manifest.
constexpr std::int64_t kMaxRecordBytes = 64 << 10;
constexpr int kMaxRecordDepth = 16;
constexpr const char* kOtherBase = "of the base in uns/log1p";
constexpr const char* kNormalization = "normalize_total";
constexpr const char* kLogarithm = "log1p";
// A list of the value_steps of matrices that were mixed.
constexpr const char* kMixed = "mixed";

using Json = nlohmann::json;

Processing processing_of(const Json& record) {
  Processing processing;
  Json steps = Json::object();
  for (const char* name : {kNormalization, kLogarithm, kMixed})
    if (record.contains(name) && record[name] != false) steps[name] = record[name];
  processing.json = record.dump();
  processing.value_steps = steps.dump();
  processing.is_normalized = steps.contains(kNormalization);
  processing.is_log1p = steps.contains(kLogarithm);
  if (!steps.contains(kMixed)) return processing;
  for (const Json& one : steps[kMixed]) {
    processing.is_normalized |= one.contains(kNormalization);
    processing.is_log1p |= one.contains(kLogarithm);
  }
  return processing;
}

}  // namespace

bool Processing::has_other_base() const {
  const auto steps = Json::parse(value_steps);
  return steps.contains(kLogarithm) && steps[kLogarithm].is_string();
}

std::string Processing::text() const {
  return fmt::format("recorded in {}, in uns/log1p or by the shards: {}", kProcessingPath, json);
}

Processing with_log1p_mark(const Processing& recorded, bool has_base) {
  auto record = Json::parse(recorded.json);
  if (has_base)
    record[kLogarithm] = kOtherBase;
  else if (!recorded.is_log1p)
    record[kLogarithm] = true;
  return processing_of(record);
}

Processing join_processing(std::span<const Processing> all) {
  const auto differ = [&](auto member) {
    return std::ranges::any_of(all, [&](const auto& one) { return one.*member != all[0].*member; });
  };
  if (!differ(&Processing::json)) return all[0];
  Json joined = Json::parse(all[0].json);
  std::set<std::string> steps;
  for (const Processing& one : all) {
    const Json record = Json::parse(one.json);
    for (auto step = joined.begin(); step != joined.end();)
      step = record.contains(step.key()) && record[step.key()] == *step ? std::next(step)
                                                                        : joined.erase(step);
    steps.insert(one.value_steps);
  }
  if (steps.size() == 1) return processing_of(joined);
  for (const char* name : {kNormalization, kLogarithm}) joined.erase(name);
  joined[kMixed] = Json::array();
  for (const std::string& one : steps) joined[kMixed].push_back(Json::parse(one));
  return processing_of(joined);
}

Processing read_processing(const std::string& json, const std::string& path) {
  if (std::ssize(json) > kMaxRecordBytes)
    throw_error(ErrorKind::kCorruptData, path,
                "the record of what was done to the values has {} bytes, and may have {}",
                json.size(), kMaxRecordBytes);
  require_shallow_json(json, path, kMaxRecordDepth);
  const auto tree = Json::parse(json, nullptr, false);
  if (!tree.is_object())
    throw Error(ErrorKind::kCorruptData,
                "the record of what was done to the values is not a JSON object", path);
  return processing_of(tree);
}

}  // namespace cellfeed::format
