#include "cellfeed/config/config_text.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>

namespace cellfeed::config {
namespace {

using Json = nlohmann::ordered_json;
constexpr int kIndent = 2;

std::string dump(const Json& json) {
  return json.dump(kIndent, ' ', false, Json::error_handler_t::replace);
}

Json json_of(const Value& value) {
  return std::visit(
      [](const auto& held) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(held)>, std::monostate>)
          return nullptr;
        else
          return held;
      },
      value);
}

// JSON strings are YAML strings; choices are plain in both.
std::string yaml_of(const Setting& setting, const Value& value) {
  if (const auto* text = std::get_if<std::string>(&value))
    return setting.choices.empty() ? dump(*text) : *text;
  if (const auto* paths = std::get_if<Paths>(&value)) {
    std::string list;
    for (const std::string& path : *paths)
      list += fmt::format("{}{}", list.empty() ? "" : ", ", dump(path));
    return fmt::format("[{}]", list);
  }
  return value_text(value);
}

std::string note(const Config& config, const Setting& setting) {
  std::string text = config.is_given(setting.key) ? "" : "default";
  if (!setting.unit.empty()) text += fmt::format("{}{}", text.empty() ? "" : ", ", setting.unit);
  return text.empty() ? "" : fmt::format("  # {}", text);
}

std::string line_of(const Config& config, const Setting& setting) {
  const std::string_view name = name_of(setting.key);
  const std::string why = config.why_unused(setting);
  if (!why.empty()) return fmt::format("# {}: no effect, {}", name, why);
  if (!config.has_value(setting.key)) return fmt::format("# {}: not given", name);
  return fmt::format("{}: {}{}", name, yaml_of(setting, config.value(setting.key)),
                     note(config, setting));
}

struct Lines {
  std::string text;
  bool has_settings = false;  // else it holds comments only, and a key above it would have no value
};

Lines section_lines(const Config& config, const std::string& section, int depth) {
  const std::string indent(static_cast<std::size_t>(depth * kIndent), ' ');
  Lines lines;
  for (const std::string& name : names_in(section)) {
    const std::string key = section.empty() ? name : fmt::format("{}.{}", section, name);
    if (const Setting* setting = find_setting(key)) {
      const std::string line = line_of(config, *setting);
      lines.has_settings |= !line.starts_with("#");
      lines.text += fmt::format("{}{}\n", indent, line);
      continue;
    }
    const Lines below = section_lines(config, key, depth + 1);
    lines.has_settings |= below.has_settings;
    lines.text +=
        fmt::format("{}{}{}:\n{}", indent, below.has_settings ? "" : "# ", name, below.text);
  }
  return lines;
}

Json setting_schema(const Setting& setting) {
  Json schema;
  std::string doc(setting.doc);
  if (!setting.unit.empty()) doc += fmt::format(" [{}]", setting.unit);
  if (!setting.need.key.empty())
    doc += fmt::format("; of use where {} is {}", setting.need.key,
                       fmt::join(setting.need.values, " or "));
  schema["description"] = doc;
  switch (setting.type) {
    case ValueType::kBool:
      schema["type"] = "boolean";
      break;
    case ValueType::kInteger:
      schema["type"] = "integer";
      schema["minimum"] = static_cast<std::int64_t>(setting.low);
      schema["maximum"] = static_cast<std::int64_t>(setting.high);
      break;
    case ValueType::kNumber:
      schema["type"] = "number";
      schema["minimum"] = setting.low;
      schema["maximum"] = setting.high;
      break;
    case ValueType::kText:
      schema["type"] = "string";
      if (setting.choices.empty())
        schema["minLength"] = 1;
      else
        schema["enum"] = setting.choices;
      break;
    case ValueType::kPaths: {
      const Json path = {{"type", "string"}, {"minLength", 1}};
      schema["anyOf"] = Json::array({path, {{"type", "array"}, {"items", path}, {"minItems", 1}}});
      break;
    }
  }
  if (!std::holds_alternative<std::monostate>(setting.default_value))
    schema["default"] = json_of(setting.default_value);
  return schema;
}

Json section_schema(const std::string& section) {
  Json schema = {{"type", "object"}, {"additionalProperties", false}};
  for (const std::string& name : names_in(section)) {
    const std::string key = section.empty() ? name : fmt::format("{}.{}", section, name);
    const Setting* setting = find_setting(key);
    schema["properties"][name] =
        setting != nullptr ? setting_schema(*setting) : section_schema(key);
  }
  return schema;
}

}  // namespace

std::string effective_settings_yaml(const Config& config) {
  return section_lines(config, "", 0).text;
}

std::string effective_settings_json(const Config& config) {
  Json json = {{"path", config.path()}, {"settings", Json::object()}};
  for (const Setting& setting : settings())
    json["settings"][std::string(setting.key)] = {{"value", json_of(config.value(setting.key))},
                                                  {"unit", setting.unit},
                                                  {"is_given", config.is_given(setting.key)},
                                                  {"unused", config.why_unused(setting)}};
  return dump(json) + "\n";
}

std::string schema_json() {
  Json schema = {{"$schema", "https://json-schema.org/draft/2020-12/schema"},
                 {"title", "cellfeed configuration"}};
  schema.update(section_schema(""));
  return dump(schema) + "\n";
}

}  // namespace cellfeed::config
