#include "cellfeed/format/processing.h"

#include <cstdint>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/base/json_depth.h"

namespace cellfeed::format {
namespace {

// Far beyond what is written, and little enough to be copied into any manifest.
constexpr std::int64_t kMaxRecordBytes = 64 << 10;
constexpr int kMaxRecordDepth = 16;
constexpr const char* kOtherBase = "of the base in uns/log1p";

}  // namespace

std::string Processing::marked_json() const {
  if (!has_log1p_mark) return json;
  auto record = nlohmann::json::parse(json);
  if (!is_log1p) record["log1p"] = true;
  return record.dump();
}

void Processing::note_other_base() {
  auto record = nlohmann::json::parse(json);
  record["log1p"] = kOtherBase;
  json = record.dump();
  is_log1p = true;
}

bool Processing::has_other_base() const {
  const auto record = nlohmann::json::parse(json);
  return record.contains("log1p") && record["log1p"].is_string();
}

std::string Processing::text() const {
  return json != "{}" ? "recorded: " + json : "it has uns/log1p, as scanpy writes it";
}

Processing read_processing(const std::string& json, const std::string& path) {
  if (std::ssize(json) > kMaxRecordBytes)
    throw_error(ErrorKind::kCorruptData, path,
                "the record of what was done to the values has {} bytes, and may have {}",
                json.size(), kMaxRecordBytes);
  require_shallow_json(json, path, kMaxRecordDepth);
  const auto tree = nlohmann::json::parse(json, nullptr, false);
  if (!tree.is_object())
    throw Error(ErrorKind::kCorruptData,
                "the record of what was done to the values is not a JSON object", path);
  Processing processing;
  processing.json = tree.dump();
  processing.is_normalized = tree.contains("normalize_total");
  processing.is_log1p = tree.contains("log1p") && tree["log1p"] != false;
  return processing;
}

}  // namespace cellfeed::format
