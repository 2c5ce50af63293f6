#include "cellfeed/base/csv_text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "cellfeed/base/error.h"
#include "cellfeed/base/trimmed.h"

namespace cellfeed {
namespace {

std::string_view without_plus(std::string_view text) {
  text = trimmed(text, " \t");
  if (text.size() > 1 && text.front() == '+' && text[1] != '-' && text[1] != '+')
    text.remove_prefix(1);
  return text;
}

// Of a number in decimal notation that is not zero: whether it is at least 1.
bool is_at_least_one(std::string_view number) {
  const std::size_t end = number.find_first_of("eE");
  const std::string_view digits = number.substr(0, end);
  std::int64_t exponent = 0;
  if (end != std::string_view::npos) {
    const std::string_view text = without_plus(number.substr(end + 1));
    const auto [_, error] = std::from_chars(text.data(), text.data() + text.size(), exponent);
    if (error != std::errc()) return !text.starts_with('-');
    // Digits are far fewer, and the sum stays a number of 64 bits.
    constexpr std::int64_t kMost = std::int64_t{1} << 48;
    exponent = std::clamp(exponent, -kMost, kMost);
  }
  const auto first = static_cast<std::int64_t>(digits.find_first_of("123456789"));
  const auto point = static_cast<std::int64_t>(std::min(digits.find('.'), digits.size()));
  return (first < point ? point - first - 1 : point - first) + exponent >= 0;
}

}  // namespace

std::string why_one_column(std::string_view name, std::string_view row, char delimiter) {
  for (const char separator : {';', '\t', ','})
    if (const auto n = std::ranges::count(name, separator);
        n > 0 && n == std::ranges::count(row, separator))
      return fmt::format(
          "line 1 has no {} but {}: separate columns by commas (numbers have points), or by tabs "
          "in a file that is named .tsv",
          delimiter == ',' ? "commas" : "tabs",
          separator == ';'    ? "semicolons"
          : separator == '\t' ? "tabs"
                              : "commas");
  return {};
}

std::string_view CsvFields::split(std::string_view line, char delimiter) {
  fields_.clear();
  unescaped_.clear();
  std::size_t begin = 0;
  for (;;) {
    if (begin < line.size() && line[begin] == '"') {
      std::size_t end = begin + 1;
      bool has_escapes = false;
      for (;; ++end) {
        end = line.find('"', end);
        if (end == std::string_view::npos) return "a quote is not closed on this line";
        if (end + 1 >= line.size() || line[end + 1] != '"') break;
        has_escapes = true;
        ++end;
      }
      std::string_view field = line.substr(begin + 1, end - begin - 1);
      if (has_escapes) {
        std::string text;
        for (std::size_t i = 0; i < field.size(); ++i) {
          text += field[i];
          if (field[i] == '"') ++i;
        }
        field = unescaped_.emplace_back(std::move(text));
      }
      fields_.push_back(field);
      if (end + 1 == line.size()) return {};
      if (line[end + 1] != delimiter) return "text stands behind a closing quote";
      begin = end + 2;
      continue;
    }
    const std::size_t end = line.find(delimiter, begin);
    fields_.push_back(line.substr(begin, end == std::string_view::npos ? end : end - begin));
    if (end == std::string_view::npos) return {};
    begin = end + 1;
  }
}

bool is_missing_text(std::string_view text) {
  if (text.empty()) return true;
  const bool is_digit = text.front() >= '0' && text.front() <= '9';
  if (text.size() > 8 || (is_digit && !text.starts_with("1.#"))) return false;
  constexpr std::array<std::string_view, 18> kMissing{
      "#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
      "<NA>", "N/A",      "NA",  "NULL",    "NaN",      "None", "n/a",  "nan",    "null"};
  return std::ranges::find(kMissing, text) != kMissing.end() || trimmed(text, " \t").empty();
}

bool is_missing_text(std::string_view text, const TextNumbers& numbers) {
  return is_missing_text(text) ||
         std::ranges::find(numbers.na_values, text) != numbers.na_values.end();
}

std::string text_of(const TextNumbers& numbers) {
  return fmt::format("{} {} {}", numbers.decimal, numbers.thousands,
                     fmt::join(numbers.na_values, ", "));
}

void check_text_numbers(const TextNumbers& numbers) {
  const auto is_mark = [](const std::string& mark) {
    return mark.size() == 1 && std::string_view("+-0123456789eE\"").find(mark) == std::string::npos;
  };
  if (!is_mark(numbers.decimal))
    throw_invalid("decimal must be one character such as '.' or ',', not '{}'", numbers.decimal);
  if (!numbers.thousands.empty() && !is_mark(numbers.thousands))
    throw_invalid("thousands must be one character such as ',' or '.', not '{}'",
                  numbers.thousands);
  if (numbers.decimal == numbers.thousands)
    throw_invalid("decimal and thousands are both '{}'", numbers.decimal);
}

std::optional<double> parse_number(std::string_view text, const TextNumbers& numbers) {
  if (numbers.decimal == "." && numbers.thousands.empty()) return parse_number(text);
  std::string plain;
  for (const char c : text) {
    if (!numbers.thousands.empty() && c == numbers.thousands[0]) continue;
    if (c == '.' && numbers.decimal != ".") return std::nullopt;
    plain += c == numbers.decimal[0] ? '.' : c;
  }
  return parse_number(plain);
}

std::optional<double> parse_number(std::string_view text) {
  text = without_plus(text);
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (end != text.data() + text.size() || text.empty()) return std::nullopt;
  if (error == std::errc::result_out_of_range) {
    // from_chars does not say which way.
    const double magnitude = is_at_least_one(text) ? HUGE_VAL : 0.0;
    return text.front() == '-' ? -magnitude : magnitude;
  }
  if (error != std::errc()) return std::nullopt;
  return value;
}

std::optional<bool> parse_flag(std::string_view text) {
  text = trimmed(text, " \t");
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

std::optional<long long> parse_integer(std::string_view text) {
  text = without_plus(text);
  long long value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_rounded(double number, std::string_view text) {
  text = without_plus(text);
  const bool is_negative = text.starts_with('-');
  text.remove_prefix(is_negative ? 1 : 0);
  if (text.empty() || text.find_first_not_of("0123456789") != std::string_view::npos) return false;
  text.remove_prefix(std::min(text.find_first_not_of('0'), text.size()));
  return fmt::format("{:.0f}", std::abs(number)) != (text.empty() ? "0" : text);
}

}  // namespace cellfeed
