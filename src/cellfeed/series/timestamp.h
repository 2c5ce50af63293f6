// Points in time as texts, numbers of a unit and calendar fields; all become nanoseconds since
// 1970-01-01 UTC. Pure functions.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace cellfeed::series {

// What the numbers of a time axis are. Files of one series agree in it.
enum class TimeKind : std::uint8_t {
  kRow,      // no time was named: rows are counted within their entity
  kInteger,  // whole numbers without a unit
  kNaive,    // nanoseconds, of texts or dates without a zone, taken for UTC
  kZoned,    // nanoseconds, of texts or timestamps that name their zone
};
std::string_view time_kind_name(TimeKind kind);  // "row", "integer", "naive", "zoned"
TimeKind time_kind_from_name(std::string_view name);
inline bool is_timestamp(TimeKind kind) { return kind >= TimeKind::kNaive; }

// In a list of times: none.
inline constexpr std::int64_t kNoTime = std::numeric_limits<std::int64_t>::min();

// Nanoseconds of a unit: "s", "ms", "us" or "ns". Throws kInvalidArgument.
std::int64_t nanoseconds_of_unit(std::string_view unit);
// Empty where nanoseconds would leave 64 bits (1677-09-21 to 2262-04-11).
inline std::optional<std::int64_t> scaled_time(std::int64_t value,
                                               std::int64_t nanoseconds_of_unit) {
  std::int64_t out = 0;
  if (__builtin_mul_overflow(value, nanoseconds_of_unit, &out) || out == kNoTime)
    return std::nullopt;
  return out;
}

// Year, month, day, hour, minute, second; what is left out is 0. Empty where there is no such time.
std::optional<std::int64_t> time_of_fields(std::span<const std::int64_t> fields);

struct ParsedTime {
  std::int64_t ns = 0;
  bool has_zone = false;
};
// ISO 8601: a date (with - or /), then, after T or a space, HH:MM, seconds, up to nine digits of
// them, and Z or an offset such as +01:00. A month (2024-03) and a quarter (2024Q1, 2024-Q1) are
// their first day. Empty for anything else.
std::optional<ParsedTime> parse_time(std::string_view text);
// What is said of a text for which it is empty.
inline constexpr std::string_view kNoSuchTime =
    "is no time such as 2024-03-01 12:30:00, of the years 1677 to 2262";

// A number (none: 1) and a unit, ns, us, ms, s, min, h, D or W: nanoseconds, above 0. Empty for
// anything else, and where they leave 64 bits.
std::optional<std::int64_t> parse_duration(std::string_view text);
// The same, or, of times that are numbers, a number above 0. Throws kInvalidArgument.
std::int64_t step_from_text(std::string_view text, TimeKind kind, std::string_view argument);

// "2016-07-01 00:00:00", with a fraction and a Z where there are; a number for the other kinds.
std::string time_text(std::int64_t time, TimeKind kind);
// What a user gives for a bound: a timestamp's text, or a number. Throws kInvalidArgument.
std::int64_t time_from_text(std::string_view text, TimeKind kind, std::string_view argument);
// The same of a text that a scaler keeps, which may have been fitted to times of another kind: a
// zone is let pass.
std::int64_t kept_time_from_text(std::string_view text, TimeKind kind, std::string_view argument);

}  // namespace cellfeed::series
