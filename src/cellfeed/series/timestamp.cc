#include "cellfeed/series/timestamp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::series {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::array<std::string_view, 4> kKindNames{"row", "integer", "naive", "zoned"};

// Digits from the front of a text.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : rest_(text) {}

  bool is_at_end() const { return rest_.empty(); }
  bool take(char c) {
    if (rest_.empty() || rest_.front() != c) return false;
    rest_.remove_prefix(1);
    return true;
  }
  // Exactly n digits.
  std::optional<std::int64_t> digits(std::size_t n) {
    if (rest_.size() < n) return std::nullopt;
    std::int64_t value = 0;
    for (const char c : rest_.substr(0, n)) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    rest_.remove_prefix(n);
    return value;
  }
  // 1 to 9 digits, as nanoseconds.
  std::optional<std::int64_t> fraction() {
    std::int64_t value = 0;
    int n = 0;
    for (; n < 9 && !rest_.empty() && rest_.front() >= '0' && rest_.front() <= '9'; ++n) {
      value = value * 10 + (rest_.front() - '0');
      rest_.remove_prefix(1);
    }
    if (n == 0) return std::nullopt;
    for (; n < 9; ++n) value *= 10;
    return value;
  }

 private:
  std::string_view rest_;
};

// Z, or an offset in seconds.
std::optional<std::int64_t> take_zone(Scanner& scanner) {
  if (scanner.take('Z')) return 0;
  const bool is_east = scanner.take('+');
  if (!is_east && !scanner.take('-')) return std::nullopt;
  const auto hours = scanner.digits(2);
  const bool has_colon = scanner.take(':');
  const auto minutes = scanner.is_at_end() && !has_colon ? 0 : scanner.digits(2);
  if (!hours || !minutes || *hours > 18 || *minutes > 59) return std::nullopt;
  const std::int64_t seconds = *hours * 3600 + *minutes * 60;
  return is_east ? seconds : -seconds;
}

// Its first: 4 of "Q2" and "-Q2".
std::optional<std::int64_t> month_of_quarter(std::string_view text) {
  if (text.starts_with('-') || text.starts_with(' ')) text.remove_prefix(1);
  if (text.size() != 2 || (text[0] != 'Q' && text[0] != 'q') || text[1] < '1' || text[1] > '4')
    return std::nullopt;
  return 3 * (text[1] - '1') + 1;
}

std::optional<std::int64_t> plus(std::optional<std::int64_t> a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!a || __builtin_add_overflow(*a, b, &sum) || sum == kNoTime) return std::nullopt;
  return sum;
}

}  // namespace

std::string_view time_kind_name(TimeKind kind) {
  return kKindNames[static_cast<std::size_t>(kind)];
}

TimeKind time_kind_from_name(std::string_view name) {
  for (std::size_t i = 0; i < kKindNames.size(); ++i)
    if (kKindNames[i] == name) return static_cast<TimeKind>(i);
  throw_invalid("not a kind of time: '{}'", name);
}

std::int64_t nanoseconds_of_unit(std::string_view unit) {
  if (unit == "s") return kSecond;
  if (unit == "ms") return 1'000'000;
  if (unit == "us") return 1'000;
  if (unit == "ns") return 1;
  throw_invalid("a unit of time must be s, ms, us or ns, not '{}'", unit);
}

std::optional<std::int64_t> time_of_fields(std::span<const std::int64_t> fields) {
  std::array<std::int64_t, 6> f{1970, 1, 1, 0, 0, 0};
  for (std::size_t i = 0; i < fields.size(); ++i) f[i] = fields[i];
  if (f[0] < 1600 || f[0] > 2300 || f[1] < 1 || f[1] > 12 || f[2] < 1 || f[2] > 31 || f[3] < 0 ||
      f[3] > 23 || f[4] < 0 || f[4] > 59 || f[5] < 0 || f[5] > 59)
    return std::nullopt;
  using namespace std::chrono;
  const year_month_day date{year(static_cast<int>(f[0])), month(static_cast<unsigned>(f[1])),
                            day(static_cast<unsigned>(f[2]))};
  if (!date.ok()) return std::nullopt;
  const std::int64_t days = sys_days(date).time_since_epoch().count();
  return scaled_time(((days * 24 + f[3]) * 60 + f[4]) * 60 + f[5], kSecond);
}

std::optional<ParsedTime> parse_time(std::string_view text) {
  Scanner scanner(text);
  std::array<std::int64_t, 6> fields{};
  const auto take_field = [&](std::size_t i, std::size_t n_digits) {
    const auto value = scanner.digits(n_digits);
    fields[i] = value.value_or(-1);
    return value.has_value();
  };
  if (!take_field(0, 4)) return std::nullopt;
  if (const auto month = month_of_quarter(text.substr(4))) {
    const auto ns = time_of_fields(std::array{fields[0], *month, std::int64_t{1}});
    return ns ? std::optional(ParsedTime{*ns, false}) : std::nullopt;
  }
  const char separator = scanner.take('/') ? '/' : '-';
  if (separator == '-' && !scanner.take('-')) return std::nullopt;
  if (!take_field(1, 2)) return std::nullopt;
  fields[2] = 1;
  if (!scanner.is_at_end() && (!scanner.take(separator) || !take_field(2, 2))) return std::nullopt;
  std::int64_t fraction = 0;
  std::optional<std::int64_t> offset;
  if (!scanner.is_at_end()) {
    if (!scanner.take('T') && !scanner.take(' ')) return std::nullopt;
    if (!take_field(3, 2) || !scanner.take(':') || !take_field(4, 2)) return std::nullopt;
    const bool has_seconds = scanner.take(':');
    if (has_seconds && !take_field(5, 2)) return std::nullopt;
    // A fraction of minutes is left where it is, and the text is no time.
    if (has_seconds && scanner.take('.')) {
      const auto digits = scanner.fraction();
      if (!digits) return std::nullopt;
      fraction = *digits;
    }
    if (!scanner.is_at_end()) {
      offset = take_zone(scanner);
      if (!offset || !scanner.is_at_end()) return std::nullopt;
    }
  }
  const auto ns = plus(plus(time_of_fields(fields), fraction), -offset.value_or(0) * kSecond);
  if (!ns) return std::nullopt;
  return ParsedTime{*ns, offset.has_value()};
}

std::string time_text(std::int64_t time, TimeKind kind) {
  if (!is_timestamp(kind)) return std::to_string(time);
  using namespace std::chrono;
  // The first nanoseconds are those of a second, and of a day, that 64 bits of them do not reach.
  std::int64_t fraction = time % kSecond;
  if (fraction < 0) fraction += kSecond;
  const sys_seconds at{seconds(time / kSecond - (time % kSecond < 0 ? 1 : 0))};
  const auto day_start = floor<days>(at);
  const year_month_day date(day_start);
  const hh_mm_ss clock(at - day_start);
  std::string text =
      fmt::format("{:04}-{:02}-{:02} {:02}:{:02}:{:02}", static_cast<int>(date.year()),
                  static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                  clock.hours().count(), clock.minutes().count(), clock.seconds().count());
  if (fraction != 0) text += fmt::format(".{:09}", fraction);
  return text + (kind == TimeKind::kZoned ? "Z" : "");
}

std::optional<std::int64_t> parse_duration(std::string_view text) {
  constexpr std::array<std::pair<std::string_view, std::int64_t>, 9> kUnits{{
      {"ns", 1},
      {"us", 1'000},
      {"ms", 1'000'000},
      {"s", kSecond},
      {"min", 60 * kSecond},
      {"h", 3600 * kSecond},
      {"D", 86'400 * kSecond},
      {"d", 86'400 * kSecond},
      {"W", 7 * 86'400 * kSecond},
  }};
  std::int64_t n = 1;
  const std::size_t n_digits = std::min(text.find_first_not_of("0123456789"), text.size());
  const auto [_, error] = std::from_chars(text.data(), text.data() + n_digits, n);
  if (n_digits > 0 && (error != std::errc() || n < 1)) return std::nullopt;
  for (const auto& [unit, ns] : kUnits)
    if (text.substr(n_digits) == unit) return scaled_time(n, ns);
  return std::nullopt;
}

std::int64_t step_from_text(std::string_view text, TimeKind kind, std::string_view argument) {
  if (is_timestamp(kind)) {
    if (const auto step = parse_duration(text)) return *step;
    throw_invalid("{} must be a length of time such as 15min, 3h or 7D, not '{}'", argument, text);
  }
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < 1)
    throw_invalid("{} must be a number above 0, as the times of this series are, not '{}'",
                  argument, text);
  return number;
}

std::int64_t time_from_text(std::string_view text, TimeKind kind, std::string_view argument) {
  if (kind == TimeKind::kNaive)
    if (const auto parsed = parse_time(text); parsed && parsed->has_zone)
      throw_invalid(
          "{} names a zone, and the times of this series name none: give it as they are, without "
          "one: '{}'",
          argument, text);
  return kept_time_from_text(text, kind, argument);
}

std::int64_t kept_time_from_text(std::string_view text, TimeKind kind, std::string_view argument) {
  if (is_timestamp(kind)) {
    if (const auto parsed = parse_time(text)) return parsed->ns;
    throw_invalid("{} must be a time such as 2024-03-01 or 2024-03-01T12:30:00Z, not '{}'",
                  argument, text);
  }
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size())
    throw_invalid("{} must be a whole number, as the times of this series are: '{}'", argument,
                  text);
  return value;
}

}  // namespace cellfeed::series
