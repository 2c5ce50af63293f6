#include "cellfeed/config/scalar_value.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <optional>

#include "cellfeed/base/nearest_name.h"

namespace cellfeed::config {
namespace {

std::optional<bool> parse_flag(const std::string& text) {
  if (text == "true" || text == "True" || text == "TRUE") return true;
  if (text == "false" || text == "False" || text == "FALSE") return false;
  return std::nullopt;
}

// 010 is eight to some and ten to others.
bool has_leading_zero(const std::string& text) {
  const std::size_t first = text.starts_with("-") || text.starts_with("+") ? 1 : 0;
  return text.size() > first + 1 && text[first] == '0' &&
         std::isdigit(static_cast<unsigned char>(text[first + 1])) != 0;
}

template <typename Number>
std::optional<Number> parse_number(const std::string& text) {
  Number number{};
  const char* begin = text.data() + (text.starts_with("+") ? 1 : 0);
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(begin, end, number);
  if (error != std::errc() || stop != end || has_leading_zero(text)) return std::nullopt;
  return number;
}

std::string hint(const Setting& setting, const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kScalar) return {};
  if (node.is_quoted && setting.type != ValueType::kText) return "; remove the quotes";
  if (setting.type == ValueType::kBool) {
    for (const char* yes : {"yes", "Yes", "on", "On", "1", "y"})
      if (node.text == yes) return "; write true";
    for (const char* no : {"no", "No", "off", "Off", "0", "n"})
      if (node.text == no) return "; write false";
  }
  if (setting.type == ValueType::kInteger) {
    std::string digits = node.text;
    std::erase_if(digits, [](char c) { return c == '_' || c == ','; });
    const auto number = parse_number<double>(digits);
    if (number && *number == std::floor(*number) && *number >= setting.low &&
        *number <= setting.high)
      return fmt::format("; write it out: {:.0f}", *number);
  }
  if (!setting.choices.empty()) {
    const std::vector<std::string> known(setting.choices.begin(), setting.choices.end());
    const std::string nearest = nearest_name(node.text, known);
    if (!nearest.empty()) return fmt::format("; did you mean {}?", nearest);
  }
  return {};
}

[[noreturn]] void refuse_value(const Setting& setting, const YamlNode& node,
                               const std::string& path) {
  refuse_at(path, node.place,
            fmt::format("{} must be {}, not {}{}", setting.key, describe_values(setting),
                        describe_node(node), hint(setting, node)));
}

Value read_paths(const Setting& setting, const YamlNode& node, const std::string& path) {
  if (node.kind == YamlNode::Kind::kScalar && !node.text.empty()) return Paths{node.text};
  if (node.kind != YamlNode::Kind::kList || node.items.empty()) refuse_value(setting, node, path);
  Paths paths;
  for (const YamlNode& item : node.items) {
    if (item.kind != YamlNode::Kind::kScalar || item.text.empty())
      refuse_at(path, item.place,
                fmt::format("{} must be a list of paths, and one of them is {}", setting.key,
                            describe_node(item)));
    paths.push_back(item.text);
  }
  return paths;
}

bool is_in_range(const Setting& setting, double number) {
  return number >= setting.low && number <= setting.high;
}

}  // namespace

std::string describe_node(const YamlNode& node) {
  constexpr std::size_t kShown = 60;
  switch (node.kind) {
    case YamlNode::Kind::kNull:
      return "nothing";
    case YamlNode::Kind::kScalar:
      if (node.text.size() > kShown) return fmt::format("text of {} bytes", node.text.size());
      return node.is_quoted ? fmt::format("the text \"{}\"", node.text)
                            : fmt::format("'{}'", node.text);
    case YamlNode::Kind::kList:
      return node.items.empty() ? "an empty list" : "a list";
    case YamlNode::Kind::kMap:
      return "a group of settings";
  }
  return {};
}

Value read_value(const Setting& setting, const YamlNode& node, const std::string& path) {
  if (setting.type == ValueType::kPaths) return read_paths(setting, node, path);
  if (node.kind != YamlNode::Kind::kScalar) refuse_value(setting, node, path);
  if (setting.type == ValueType::kText) {
    const auto& choices = setting.choices;
    const bool is_known =
        choices.empty() ? !node.text.empty()
                        : std::find(choices.begin(), choices.end(), node.text) != choices.end();
    if (!is_known) refuse_value(setting, node, path);
    return node.text;
  }
  if (node.is_quoted) refuse_value(setting, node, path);
  switch (setting.type) {
    case ValueType::kBool:
      if (const auto value = parse_flag(node.text)) return *value;
      break;
    case ValueType::kInteger:
      if (const auto value = parse_number<std::int64_t>(node.text))
        if (is_in_range(setting, static_cast<double>(*value))) return *value;
      break;
    default:
      if (const auto value = parse_number<double>(node.text))
        if (std::isfinite(*value) && is_in_range(setting, *value)) return *value;
  }
  refuse_value(setting, node, path);
}

}  // namespace cellfeed::config
