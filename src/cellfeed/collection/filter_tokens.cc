#include "cellfeed/collection/filter_tokens.h"

#include <array>
#include <charconv>
#include <utility>

namespace cellfeed::collection {
namespace {

bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
// Bytes of characters beyond ASCII are part of names.
bool begins_name(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' || (c & 0x80) != 0;
}

char escaped(char c) {
  switch (c) {
    case 'n':
      return '\n';
    case 't':
      return '\t';
    case 'r':
      return '\r';
    default:
      return c;
  }
}

}  // namespace

FilterToken FilterTokens::take() {
  FilterToken token = std::move(next_);
  advance();
  return token;
}

void FilterTokens::advance() {
  while (place_ < text_.size() && is_space(text_[place_])) ++place_;
  next_ = FilterToken{.at = place_};
  if (place_ == text_.size()) return;
  const char c = text_[place_];
  if (c == '\'' || c == '"' || c == '`') return read_text(c);
  const bool has_point = c == '.' && place_ + 1 < text_.size() && is_digit(text_[place_ + 1]);
  if (is_digit(c) || has_point) return read_number();
  if (!begins_name(c)) return read_sign();
  std::size_t end = place_;
  while (end < text_.size() && (begins_name(text_[end]) || is_digit(text_[end]))) ++end;
  next_.kind = FilterToken::Kind::kName;
  next_.text = std::string(text_.substr(place_, end - place_));
  place_ = end;
}

void FilterTokens::read_text(char quote) {
  std::string content;
  std::size_t end = place_ + 1;
  while (end < text_.size() && text_[end] != quote && text_[end] != '\n') {
    if (text_[end] == '\\' && quote != '`') {
      if (++end == text_.size()) break;
      constexpr std::string_view kKnown = "\\'\"ntr";
      if (kKnown.find(text_[end]) == std::string_view::npos)
        refuse_filter(text_, "after \\ comes one of \\ ' \" n t r", end);
      content += escaped(text_[end++]);
    } else {
      content += text_[end++];
    }
  }
  if (end >= text_.size() || text_[end] != quote)
    refuse_filter(text_, "a quote is not closed on its line", place_);
  place_ = end + 1;
  next_.kind = quote == '`' ? FilterToken::Kind::kQuotedName : FilterToken::Kind::kValue;
  if (quote == '`')
    next_.text = std::move(content);
  else
    next_.value = std::move(content);
}

// Whole numbers beyond int64 are uint64, and floats beyond that.
void FilterTokens::read_number() {
  const char* begin = text_.data() + place_;
  const char* limit = text_.data() + text_.size();
  std::uint64_t whole = 0;
  double real = 0;
  const auto as_real = std::from_chars(begin, limit, real);
  const auto as_whole = std::from_chars(begin, limit, whole);
  if (as_real.ec == std::errc::invalid_argument) refuse_filter(text_, "this is no number", place_);
  const bool is_whole = as_whole.ec == std::errc{} && as_whole.ptr == as_real.ptr;
  if (!is_whole && as_real.ec != std::errc{})
    refuse_filter(text_, "the number is too large or too small", place_);
  place_ = static_cast<std::size_t>((is_whole ? as_whole.ptr : as_real.ptr) - text_.data());
  if (place_ < text_.size() && (begins_name(text_[place_]) || is_digit(text_[place_])))
    refuse_filter(text_, "this is no number", next_.at);
  next_.kind = FilterToken::Kind::kValue;
  if (!is_whole)
    next_.value = real;
  else if (whole > INT64_MAX)
    next_.value = whole;
  else
    next_.value = static_cast<std::int64_t>(whole);
}

void FilterTokens::read_sign() {
  constexpr std::array<std::string_view, 9> kLong{"==", "!=", "<=", ">=", "**",
                                                  "//", "<<", ">>", ":="};
  next_.kind = FilterToken::Kind::kSign;
  next_.text = std::string(text_.substr(place_, 1));
  for (const std::string_view sign : kLong)
    if (text_.substr(place_).starts_with(sign)) next_.text = std::string(sign);
  if (std::string_view("()[]{},.<>=!&|~+-*/%@^:").find(next_.text[0]) == std::string_view::npos)
    refuse_filter(text_, "there is a character that means nothing here", place_);
  place_ += next_.text.size();
}

}  // namespace cellfeed::collection
