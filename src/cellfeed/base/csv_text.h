// One line of CSV as fields, and fields as numbers. Pure functions.
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed {

// How texts have numbers; na_values are missing ones, beside those that is_missing_text knows.
struct TextNumbers {
  std::string decimal = ".", thousands{};  // one character; none between thousands: ""
  std::vector<std::string> na_values{};
};
void check_text_numbers(const TextNumbers& numbers);  // throws kInvalidArgument
std::string text_of(const TextNumbers& numbers);      // for a plan

// Of a table whose header was read as one name: whether this row holds another separator as often,
// and what to do; empty where it does not.
std::string why_one_column(std::string_view name, std::string_view row, char delimiter);

// A line cut at the delimiter. Fields in double quotes lose them, and "" in them is one.
class CsvFields {
 public:
  // What is wrong with the line; empty where nothing is. Lifetime: fields are views of the line.
  std::string_view split(std::string_view line, char delimiter);
  const std::vector<std::string_view>& fields() const { return fields_; }

 private:
  std::vector<std::string_view> fields_;
  std::deque<std::string> unescaped_;
};

// What pandas takes for a missing value: empty, NA, NaN, null, None and their like.
bool is_missing_text(std::string_view text);
bool is_missing_text(std::string_view text, const TextNumbers& numbers);
// A decimal number, to the nearest double; spaces around it and a + are let pass. Empty for
// anything else.
std::optional<double> parse_number(std::string_view text);
std::optional<double> parse_number(std::string_view text, const TextNumbers& numbers);
// true, True, TRUE and their opposites.
std::optional<bool> parse_flag(std::string_view text);
std::optional<long long> parse_integer(std::string_view text);
// Whether the text has the digits of a whole number that is not this one.
bool is_rounded(double number, std::string_view text);

}  // namespace cellfeed
