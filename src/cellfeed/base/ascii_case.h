// Small letters of ASCII, whatever the locale: names in headers, queries and files. Pure.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>

namespace cellfeed {

inline char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c; }

inline std::string lower(std::string_view text) {
  std::string made(text);
  std::ranges::transform(made, made.begin(), [](char c) { return lower(c); });
  return made;
}

}  // namespace cellfeed
