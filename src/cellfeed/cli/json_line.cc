#include "cellfeed/cli/json_line.h"

#include <nlohmann/json.hpp>

namespace cellfeed::cli {

std::string json_line(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace cellfeed::cli
