// json_line: a result for machines, as every verb prints it. Thread-safe.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>

namespace cellfeed::cli {

// Indented, with a newline at its end; bytes that are no UTF-8 are replaced.
std::string json_line(const nlohmann::ordered_json& json);

}  // namespace cellfeed::cli
