// Hashes of 64 bits in names of files: 16 hexadecimal digits, as "{:016x}" writes them. Pure.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string_view>

namespace cellfeed {

inline constexpr std::size_t kHashDigits = 16;

inline bool is_hash_text(std::string_view text) {
  return text.size() == kHashDigits && std::ranges::all_of(text, [](char c) {
           return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f');
         });
}

}  // namespace cellfeed
