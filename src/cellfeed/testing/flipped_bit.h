// flip_bit: damage of one bit of a local file; the same again mends it. Tests only.
#pragma once

#include <cstdint>
#include <fstream>
#include <string>

namespace cellfeed::testing {

inline void flip_bit(const std::string& path, std::int64_t offset, int bit) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  file.seekg(offset);
  const char byte = static_cast<char>(file.get() ^ (1 << bit));
  file.seekp(offset);
  file.put(byte);
}

}  // namespace cellfeed::testing
