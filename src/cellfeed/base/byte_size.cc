#include "cellfeed/base/byte_size.h"

#include <array>
#include <cctype>
#include <charconv>
#include <cmath>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed {
namespace {

constexpr std::array<std::pair<std::string_view, double>, 14> kUnits = {{
    {"", 1},
    {"b", 1},
    {"k", 1e3},
    {"kb", 1e3},
    {"m", 1e6},
    {"mb", 1e6},
    {"g", 1e9},
    {"gb", 1e9},
    {"t", 1e12},
    {"tb", 1e12},
    {"kib", 1024.0},
    {"mib", 1048576.0},
    {"gib", 1073741824.0},
    {"tib", 1099511627776.0},
}};

[[noreturn]] void refuse(std::string_view text) {
  throw_invalid("a size is a number and a unit, such as 2GB, 512MB or 1GiB, not: '{}'", text);
}

}  // namespace

std::int64_t parse_byte_size(std::string_view text) {
  double number = 0;
  const char* end = text.data() + text.size();
  const auto [rest, status] = std::from_chars(text.data(), end, number, std::chars_format::fixed);
  if (status != std::errc{} || !std::isfinite(number) || number < 0) refuse(text);
  std::string unit;
  for (const char* c = rest; c != end; ++c)
    if (*c != ' ' || !unit.empty())
      unit += static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  for (const auto& [name, factor] : kUnits) {
    if (unit != name) continue;
    const double bytes = std::round(number * factor);
    if (bytes >= 0x1p63) refuse(text);
    return static_cast<std::int64_t>(bytes);
  }
  refuse(text);
}

std::string format_byte_size(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 6> kNames = {"KB", "MB", "GB", "TB", "PB", "EB"};
  if (bytes < 1000) return fmt::format("{} bytes", bytes);
  double scaled = static_cast<double>(bytes) / 1000;
  std::size_t unit = 0;
  while (scaled >= 999.5 && unit + 1 < kNames.size()) {
    scaled /= 1000;
    ++unit;
  }
  const int digits = scaled < 9.995 ? 2 : scaled < 99.95 ? 1 : 0;
  return fmt::format("{:.{}f} {}", scaled, digits, kNames[unit]);
}

}  // namespace cellfeed
