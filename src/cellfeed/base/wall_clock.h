// The time of day, for what is compared with times of files.
#pragma once

#include <chrono>
#include <cstdint>

namespace cellfeed {

// Nanoseconds since 1970.
inline std::int64_t wall_clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::system_clock::now().time_since_epoch())
      .count();
}

}  // namespace cellfeed
