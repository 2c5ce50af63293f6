// mix: the step of a hash over numbers and texts that follow from content. Pure.
#pragma once

#include <cstdint>
#include <string_view>

namespace cellfeed {

// What came before is spread over all bits first, so that a small number never undoes one.
inline std::uint64_t mix(std::uint64_t hash, std::uint64_t value) {
  hash = (((hash + 1) * 0x9E3779B97F4A7C15u) ^ value) * 0xBF58476D1CE4E5B9u;
  return hash ^ (hash >> 29);
}

// The length too, so that "ab", "c" is not "a", "bc".
inline std::uint64_t mix(std::uint64_t hash, std::string_view text) {
  hash = mix(hash, std::uint64_t{text.size()});
  for (const char c : text) hash = mix(hash, std::uint64_t{static_cast<unsigned char>(c)});
  return hash;
}

}  // namespace cellfeed
