// Words of a filter, one after another. Pure.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "cellfeed/collection/filter_syntax.h"

namespace cellfeed::collection {

struct FilterToken {
  enum class Kind { kEnd, kName, kQuotedName, kValue, kSign };
  Kind kind = Kind::kEnd;
  std::size_t at = 0;
  std::string text{};   // of names and signs
  FilterValue value{};  // of texts and numbers
};

class FilterTokens {
 public:
  explicit FilterTokens(std::string_view text) : text_(text) { advance(); }
  const FilterToken& next() const { return next_; }
  // The next one, and goes on. Throws kInvalidArgument.
  FilterToken take();
  bool is_sign(std::string_view sign) const {
    return next_.kind == FilterToken::Kind::kSign && next_.text == sign;
  }
  bool is_word(std::string_view word) const {
    return next_.kind == FilterToken::Kind::kName && next_.text == word;
  }
  std::string_view text() const { return text_; }

 private:
  void advance();
  void read_text(char quote);
  void read_number();
  void read_sign();

  std::string_view text_;
  std::size_t place_ = 0;
  FilterToken next_;
};

}  // namespace cellfeed::collection
