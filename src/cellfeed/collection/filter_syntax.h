// The syntax of filters: expressions over columns, in the words of pandas' query and of SOMA's
// value filters. Parsed to a tree, of which nothing has a meaning yet. Pure.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "cellfeed/matrix/categories.h"

namespace cellfeed::collection {

// A text, number or boolean; empty for None.
using FilterValue = std::optional<matrix::Category>;

struct FilterNode {
  enum class Kind {
    kOr,
    kAnd,
    kNot,
    kComparison,  // children: what is compared, in order; words: between them
    kColumn,      // name
    kValue,       // value
    kList,        // children
    kCall,        // name: a function, which there are none of
    kOther        // anything else that Python would know
  };
  Kind kind = Kind::kOther;
  std::size_t at = 0;       // its first byte in the text
  bool is_bitwise = false;  // & | ~ for and or not
  std::vector<FilterNode> children{};
  std::vector<std::string> words{};  // "==", "in", "not in", "is", "is not", ...
  std::string name{};
  FilterValue value{};
};
using NodeKind = FilterNode::Kind;

// Throws kInvalidArgument, with the place.
FilterNode parse_filter(std::string_view text);

// Throws kInvalidArgument: what is wrong, where, and how filters are written.
[[noreturn]] void refuse_filter(std::string_view text, const std::string& what, std::size_t at);
// "at character 12 of the filter 'tissue = ...'"
std::string place_in_filter(std::string_view text, std::size_t at);

}  // namespace cellfeed::collection
