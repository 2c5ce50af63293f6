// Numbers as people read them. Pure.
#pragma once

#include <cstdint>
#include <string>

namespace cellfeed {

// "12 s", "3 min 20 s", "2 h 5 min".
std::string duration_text(double seconds);
// "1234567" -> "1,234,567".
std::string grouped(std::int64_t number);

}  // namespace cellfeed
