#include "cellfeed/format/tenx/text_type.h"

#include <arrow/api.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string_view>

#include "cellfeed/base/csv_text.h"
#include "cellfeed/format/column_values.h"

namespace cellfeed::format::tenx {
namespace {

// Blank text is none to pandas.read_csv.
bool is_missing(std::string_view text) {
  return text.empty() || (text.front() != ' ' && text.front() != '\t' && is_missing_text(text));
}

// Digits that overflow, and whole numbers that neither int64 nor double holds, stay texts.
std::optional<double> real_of(std::string_view text) {
  const auto number = parse_number(text);
  if (!number || std::isnan(*number)) return std::nullopt;
  if (std::isinf(*number) && text.find_first_of("0123456789") != std::string_view::npos)
    return std::nullopt;
  return parse_integer(text) || !is_rounded(*number, text) ? number : std::nullopt;
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
  is_integer_ = is_integer_ && parse_integer(text);
  is_real_ = is_real_ && real_of(text);
  is_boolean_ = is_boolean_ && parse_flag(text);
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
      return append<arrow::Int64Builder>(builder, parse_integer(text));
    case TextType::kReal:
      return append<arrow::DoubleBuilder>(
          builder, missing ? std::numeric_limits<double>::quiet_NaN() : real_of(text));
    case TextType::kBoolean:
      return append<arrow::BooleanBuilder>(builder, parse_flag(text));
    case TextType::kText:
      break;
  }
  return append<arrow::StringBuilder>(builder, std::optional(text));
}

}  // namespace cellfeed::format::tenx
