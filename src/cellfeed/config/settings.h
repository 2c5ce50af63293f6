// The table of settings: every key that a configuration file may hold, what its values are and what
// they mean. Parsing, `cellfeed config --show` and `--schema` all follow it. To add a setting: one
// row in settings.cc, and a line in docs/configuration.md. Pure data.
#pragma once

#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace cellfeed::config {

using Paths = std::vector<std::string>;
// monostate: no value, where a setting has no default and is not given.
using Value = std::variant<std::monostate, bool, std::int64_t, double, std::string, Paths>;

enum class ValueType { kBool, kInteger, kNumber, kText, kPaths };

// What has to be so for a setting to be of use.
struct Need {
  std::string_view key{};                  // empty: it always is
  std::vector<std::string_view> values{};  // of that setting, any of them, as text
};

struct Setting {
  std::string_view key;  // "data.shards.enabled"
  ValueType type = ValueType::kText;
  Value default_value{};
  std::string_view unit{};  // "cells", "genes"
  std::string_view doc{};
  std::vector<std::string_view> choices{};                // of text; empty: any but the empty one
  double low = -std::numeric_limits<double>::infinity();  // of numbers, both included
  double high = std::numeric_limits<double>::infinity();
  Need need{};
};

// In the order in which they are shown.
std::span<const Setting> settings();
// Null where there is none.
const Setting* find_setting(std::string_view key);

// Names directly below a section ("" is the whole file): "enabled", "shard_dir" of "data.shards".
std::vector<std::string> names_in(std::string_view section);
bool is_section(std::string_view key);
// "data.shards.enabled" -> "data.shards" and "enabled".
std::string_view section_of(std::string_view key);
std::string_view name_of(std::string_view key);

// "a whole number of at least 1 (cells)": what values of a setting must be.
std::string describe_values(const Setting& setting);
// As YAML would have it on one line: true, 0.5, text.
std::string value_text(const Value& value);

}  // namespace cellfeed::config
