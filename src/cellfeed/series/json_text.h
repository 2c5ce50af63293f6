// Texts that may be missing, as JSON has them. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

namespace cellfeed::series {

inline nlohmann::ordered_json text_or_null(const std::optional<std::string>& text) {
  return text ? nlohmann::ordered_json(*text) : nlohmann::ordered_json();
}

}  // namespace cellfeed::series
