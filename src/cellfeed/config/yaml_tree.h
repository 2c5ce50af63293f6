// A YAML document as a tree, read as if it came from an enemy: bounded in size and depth, no
// anchors, aliases or tags, no key twice. Pure.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed::config {

inline constexpr std::int64_t kMaxConfigBytes = 1 << 20;
inline constexpr std::size_t kMaxConfigDepth = 16;

// Both from 1.
struct Place {
  int line = 0;
  int column = 0;
};

struct YamlNode {
  enum class Kind { kNull, kScalar, kList, kMap };
  struct Entry;
  Kind kind = Kind::kNull;
  Place place;
  std::string text{};             // of a scalar
  bool is_quoted = false;         // a quoted scalar is text, whatever it looks like
  std::vector<YamlNode> items{};  // of a list
  std::vector<Entry> entries{};   // of a map
};
struct YamlNode::Entry {
  std::string key;
  Place place;
  YamlNode value;
};

// Throws kInvalidArgument: file, line, column, what is wrong.
YamlNode parse_yaml(std::string_view text, const std::string& path);

// Throws kInvalidArgument naming file, line and column.
[[noreturn]] void refuse_at(const std::string& path, const Place& place, const std::string& what);

}  // namespace cellfeed::config
