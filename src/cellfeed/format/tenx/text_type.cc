#include "cellfeed/format/tenx/text_type.h"

#include <arrow/api.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <limits>
#include <optional>
#include <string_view>
#include <system_error>

#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// Those of pandas.read_csv.
constexpr std::string_view kMissing[] = {
    "",     "#N/A", "#N/A N/A", "#NA",  "-1.#IND", "-1.#QNAN", "-NaN", "-nan", "1.#IND", "1.#QNAN",
    "<NA>", "N/A",  "NA",       "NULL", "NaN",     "None",     "n/a",  "nan",  "null"};

bool is_missing(std::string_view text) {
  return std::ranges::find(kMissing, text) != std::end(kMissing);
}

template <typename Number>
std::errc parse(std::string_view text, Number& number) {
  const std::size_t begin = text.find_first_not_of(' ');
  if (begin == std::string_view::npos) return std::errc::invalid_argument;
  text = text.substr(begin, text.find_last_not_of(' ') + 1 - begin);
  if (text.size() > 1 && text[0] == '+' && text[1] != '-') text.remove_prefix(1);
  const auto [stop, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return stop == text.data() + text.size() ? error : std::errc::invalid_argument;
}

std::optional<std::int64_t> integer_of(std::string_view text) {
  std::int64_t number = 0;
  if (parse(text, number) != std::errc()) return std::nullopt;
  return number;
}

std::optional<double> real_of(std::string_view text) {
  double number = 0;
  std::int64_t whole = 0;
  if (parse(text, number) != std::errc() || std::isnan(number) ||
      parse(text, whole) == std::errc::result_out_of_range)
    return std::nullopt;
  return number;
}

std::optional<bool> boolean_of(std::string_view text) {
  if (text == "True" || text == "TRUE" || text == "true") return true;
  if (text == "False" || text == "FALSE" || text == "false") return false;
  return std::nullopt;
}

template <typename Builder, typename Value>
bool append(arrow::ArrayBuilder& builder, const std::optional<Value>& value) {
  if (value) check_arrow(static_cast<Builder&>(builder).Append(*value));
  return value.has_value();
}

}  // namespace

void SeenTexts::see(std::string_view text) {
  if (is_missing(text)) {
    has_missing_ = true;
    return;
  }
  has_values_ = true;
  is_integer_ = is_integer_ && integer_of(text);
  is_real_ = is_real_ && real_of(text);
  is_boolean_ = is_boolean_ && boolean_of(text);
}

TextType SeenTexts::type() const {
  if (!has_values_) return has_missing_ ? TextType::kReal : TextType::kText;
  if (is_integer_ && !has_missing_) return TextType::kInteger;
  if (is_real_) return TextType::kReal;
  return is_boolean_ ? TextType::kBoolean : TextType::kText;
}

std::shared_ptr<arrow::DataType> arrow_type(TextType type) {
  switch (type) {
    case TextType::kInteger:
      return arrow::int64();
    case TextType::kReal:
      return arrow::float64();
    case TextType::kBoolean:
      return arrow::boolean();
    case TextType::kText:
      break;
  }
  return arrow::utf8();
}

bool append_text(TextType type, std::string_view text, arrow::ArrayBuilder& builder) {
  const bool missing = is_missing(text);
  if (missing && type != TextType::kReal) {
    check_arrow(builder.AppendNull());
    return type != TextType::kInteger;
  }
  switch (type) {
    case TextType::kInteger:
      return append<arrow::Int64Builder>(builder, integer_of(text));
    case TextType::kReal:
      return append<arrow::DoubleBuilder>(
          builder, missing ? std::numeric_limits<double>::quiet_NaN() : real_of(text));
    case TextType::kBoolean:
      return append<arrow::BooleanBuilder>(builder, boolean_of(text));
    case TextType::kText:
      break;
  }
  return append<arrow::StringBuilder>(builder, std::optional(text));
}

}  // namespace cellfeed::format::tenx
