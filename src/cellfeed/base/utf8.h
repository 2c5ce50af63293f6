// Code points of Unicode as UTF-8.
#pragma once

#include <cstdint>
#include <string>

namespace cellfeed {

// REQUIRES: point <= 0x10ffff.
inline void append_utf8(std::string& text, std::uint32_t point) {
  const auto add = [&](std::uint32_t byte) { text += static_cast<char>(byte); };
  if (point < 0x80) return add(point);
  const int n_more = point < 0x800 ? 1 : point < 0x10000 ? 2 : 3;
  add((0xFF00u >> (n_more + 1) & 0xFFu) | point >> (6 * n_more));
  for (int i = n_more; i-- > 0;) add(0x80u | (point >> (6 * i) & 0x3Fu));
}

}  // namespace cellfeed
