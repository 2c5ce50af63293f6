#include "cellfeed/format/processing.h"

#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"

namespace cellfeed::format {

Processing read_processing(const std::string& json, const std::string& path) {
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
