// Members of the JSON that servers answer with. Pure.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

namespace cellfeed::cloud {

// Empty where there is none of this name, or it is no text.
inline std::string text_member(const nlohmann::json& object, const char* name) {
  const auto found = object.find(name);
  return found == object.end() || !found->is_string() ? "" : found->get<std::string>();
}

}  // namespace cellfeed::cloud
