// trimmed: a text without the blanks, or other characters, at its ends. Pure.
#pragma once

#include <string_view>

namespace cellfeed {

inline std::string_view trimmed(std::string_view text, const char* characters = " \t\r\n") {
  const auto first = text.find_first_not_of(characters);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(characters) - first + 1);
}

}  // namespace cellfeed
