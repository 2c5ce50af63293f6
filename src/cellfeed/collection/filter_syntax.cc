#include "cellfeed/collection/filter_syntax.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/collection/filter_tokens.h"

namespace cellfeed::collection {
namespace {

using TokenKind = FilterToken::Kind;

constexpr int kMaxDepth = 100;
constexpr std::size_t kShownBytes = 300;
constexpr const char* kHelp =
    "write conditions such as tissue == 'lung', n_counts > 500, donor in ['a', 'b'] or donor is "
    "missing, joined by and, or, not; names with spaces in backticks";
constexpr const char* kNoCondition = "this is no condition";

// Python's precedence: or, and, not, comparisons, |, &, ~.
class Parser {
 public:
  explicit Parser(std::string_view text) : tokens_(text) {}

  FilterNode whole() {
    if (at_end()) throw_invalid("the filter is empty: {}", kHelp);
    FilterNode node = any_of();
    if (tokens_.is_word("if")) refuse(kNoCondition, node.at);
    if (!at_end()) refuse("the syntax is wrong", tokens_.next().at);
    return node;
  }

 private:
  [[noreturn]] void refuse(const std::string& what, std::size_t at) const {
    refuse_filter(tokens_.text(), what, at);
  }
  bool at_end() const { return tokens_.next().kind == TokenKind::kEnd; }
  void expect(std::string_view sign) {
    if (!tokens_.is_sign(sign)) refuse(fmt::format("'{}' is missing", sign), tokens_.next().at);
    tokens_.take();
  }

  template <typename IsNext, typename Operand>
  FilterNode joined(NodeKind kind, bool is_bitwise, IsNext is_next, Operand operand) {
    FilterNode first = operand();
    if (!is_next()) return first;
    FilterNode node{.kind = kind, .at = first.at, .is_bitwise = is_bitwise};
    node.children.push_back(std::move(first));
    while (is_next()) {
      tokens_.take();
      node.children.push_back(operand());
    }
    return node;
  }

  FilterNode any_of() {
    return joined(
        NodeKind::kOr, false, [&] { return tokens_.is_word("or"); }, [&] { return all_of(); });
  }
  FilterNode all_of() {
    return joined(
        NodeKind::kAnd, false, [&] { return tokens_.is_word("and"); }, [&] { return negation(); });
  }
  FilterNode negation() {
    if (!tokens_.is_word("not")) return comparison();
    const Depth depth(*this);
    FilterNode node{.kind = NodeKind::kNot, .at = tokens_.take().at};
    node.children.push_back(negation());
    return node;
  }

  std::string comparison_word() {
    const FilterToken& next = tokens_.next();
    constexpr std::array<std::string_view, 6> kSigns{"==", "!=", "<", "<=", ">", ">="};
    if (next.kind == TokenKind::kSign && std::ranges::count(kSigns, next.text) > 0)
      return tokens_.take().text;
    if (tokens_.is_word("in")) return tokens_.take().text;
    if (tokens_.is_word("not")) {
      tokens_.take();
      if (!tokens_.is_word("in")) refuse("after not comes in here", tokens_.next().at);
      tokens_.take();
      return "not in";
    }
    if (!tokens_.is_word("is")) return {};
    tokens_.take();
    if (!tokens_.is_word("not")) return "is";
    tokens_.take();
    return "is not";
  }

  FilterNode comparison() {
    FilterNode first = alternative();
    std::string word = comparison_word();
    if (word.empty()) return first;
    FilterNode node{.kind = NodeKind::kComparison, .at = first.at};
    node.children.push_back(std::move(first));
    for (; !word.empty(); word = comparison_word()) {
      node.words.push_back(word);
      node.children.push_back(alternative());
    }
    return node;
  }

  FilterNode alternative() {
    return joined(
        NodeKind::kOr, true, [&] { return tokens_.is_sign("|"); },
        [&] {
          return joined(
              NodeKind::kAnd, true, [&] { return tokens_.is_sign("&"); },
              [&] { return signed_value(); });
        });
  }

  FilterNode signed_value() {
    const Depth depth(*this);
    const std::size_t at = tokens_.next().at;
    if (tokens_.is_sign("~")) {
      tokens_.take();
      FilterNode node{.kind = NodeKind::kNot, .at = at, .is_bitwise = true};
      node.children.push_back(signed_value());
      return node;
    }
    if (tokens_.is_sign("-") || tokens_.is_sign("+")) {
      const bool is_negative = tokens_.take().text == "-";
      FilterNode node = signed_value();
      node.at = at;
      negate(node, is_negative);
      return node;
    }
    FilterNode node = operand();
    constexpr std::array<std::string_view, 10> kArithmetic{"+", "-",  "*",  "/", "%",
                                                           "@", "**", "//", "^", "<<"};
    const FilterToken& next = tokens_.next();
    if (next.kind == TokenKind::kSign && std::ranges::count(kArithmetic, next.text) > 0)
      refuse("there is no arithmetic here", node.at);
    return node;
  }

  void negate(FilterNode& node, bool is_negative) const {
    const bool is_value = node.kind == NodeKind::kValue && node.value;
    const auto* whole = is_value ? std::get_if<std::int64_t>(&*node.value) : nullptr;
    const auto* large = is_value ? std::get_if<std::uint64_t>(&*node.value) : nullptr;
    const auto* real = is_value ? std::get_if<double>(&*node.value) : nullptr;
    if (whole == nullptr && large == nullptr && real == nullptr)
      refuse("a sign stands before a number", node.at);
    if (!is_negative) return;
    constexpr std::uint64_t kOfLeast = std::uint64_t{1} << 63U;
    if (real != nullptr)
      node.value = -*real;
    else if (large != nullptr && *large > kOfLeast)  // below every int64, however it is rounded
      node.value = std::min(-static_cast<double>(*large), std::nextafter(-0x1p63, -HUGE_VAL));
    else if (large != nullptr)
      node.value = INT64_MIN;
    else if (*whole == INT64_MIN)
      node.value = kOfLeast;
    else
      node.value = -*whole;
  }

  FilterNode operand() {
    const FilterToken token = tokens_.take();
    FilterNode node{.at = token.at};
    if (token.kind == TokenKind::kValue) {
      node.kind = NodeKind::kValue;
      node.value = token.value;
    } else if (token.kind == TokenKind::kQuotedName) {
      node.kind = NodeKind::kColumn;
      node.name = token.text;
    } else if (token.kind == TokenKind::kName) {
      node = named(token);
    } else if (token.text == "(") {
      node = in_brackets(token.at);
    } else if (token.text == "[" || token.text == "{") {
      node.kind = NodeKind::kList;
      items(node, token.text == "[" ? "]" : "}");
    } else {
      refuse("the syntax is wrong", token.at);
    }
    return with_what_follows(std::move(node));
  }

  FilterNode named(const FilterToken& token) {
    FilterNode node{.kind = NodeKind::kValue, .at = token.at};
    if (token.text == "True" || token.text == "False") {
      node.value = token.text == "True";
    } else if (token.text != "None") {
      constexpr std::array<std::string_view, 7> kWords{"and", "or",     "in",  "is",
                                                       "if",  "lambda", "else"};
      if (std::ranges::count(kWords, token.text) > 0) refuse("the syntax is wrong", token.at);
      node.kind = NodeKind::kColumn;
      node.name = token.text;
    }
    return node;
  }

  // One in brackets, or a list.
  FilterNode in_brackets(std::size_t at) {
    FilterNode list{.kind = NodeKind::kList, .at = at};
    if (tokens_.is_sign(")")) {
      tokens_.take();
      return list;
    }
    FilterNode first = any_of();
    if (tokens_.is_sign(")")) {
      tokens_.take();
      return first;
    }
    list.children.push_back(std::move(first));
    if (!tokens_.is_sign(",")) expect(")");
    tokens_.take();
    items(list, ")");
    return list;
  }

  void items(FilterNode& list, std::string_view end) {
    while (!tokens_.is_sign(end)) {
      list.children.push_back(any_of());
      if (!tokens_.is_sign(",")) break;
      tokens_.take();
    }
    expect(end);
  }

  // Calls, attributes and items: known for what they are, so that it can be said that there are
  // none; attr("name") is a column, as SOMA writes it.
  FilterNode with_what_follows(FilterNode node) {
    while (tokens_.is_sign("(") || tokens_.is_sign(".") || tokens_.is_sign("[")) {
      const std::string sign = tokens_.take().text;
      FilterNode inside{.kind = NodeKind::kList, .at = node.at};
      if (sign == ".") {
        tokens_.take();
      } else {
        items(inside, sign == "(" ? ")" : "]");
      }
      const bool is_named = node.kind == NodeKind::kColumn && sign == "(";
      const bool is_attr = is_named && node.name == "attr" && inside.children.size() == 1;
      const FilterValue value = is_attr ? inside.children[0].value : std::nullopt;
      if (value && std::holds_alternative<std::string>(*value)) {
        node = {.kind = NodeKind::kColumn, .at = node.at, .name = std::get<std::string>(*value)};
      } else {
        node = {.kind = is_named ? NodeKind::kCall : NodeKind::kOther,
                .at = node.at,
                .name = node.name};
      }
    }
    return node;
  }

  // Of what is being parsed, which takes stack.
  class Depth {
   public:
    explicit Depth(Parser& parser) : parser_(parser) {
      if (++parser_.depth_ > kMaxDepth) throw_invalid("the filter is nested too deeply");
    }
    ~Depth() { --parser_.depth_; }
    Depth(const Depth&) = delete;
    Depth& operator=(const Depth&) = delete;

   private:
    Parser& parser_;
  };

  FilterTokens tokens_;
  int depth_ = 0;
};

}  // namespace

FilterNode parse_filter(std::string_view text) { return Parser(text).whole(); }

std::string place_in_filter(std::string_view text, std::size_t at) {
  const auto is_first_byte = [](char c) { return (c & 0xC0) != 0x80; };
  const auto character = std::ranges::count_if(text.substr(0, at), is_first_byte) + 1;
  std::string shown(text.substr(0, kShownBytes));
  if (shown.size() < text.size()) shown += "...";
  return fmt::format("at character {} of the filter '{}'", character, shown);
}

void refuse_filter(std::string_view text, const std::string& what, std::size_t at) {
  throw_invalid("{} ({}); {}", what, place_in_filter(text, at), kHelp);
}

}  // namespace cellfeed::collection
