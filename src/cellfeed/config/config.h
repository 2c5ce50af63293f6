// Config: the settings of one file, checked against the table (settings.h) and one another when it
// is read. Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "cellfeed/base/error.h"
#include "cellfeed/config/settings.h"
#include "cellfeed/config/yaml_tree.h"

namespace cellfeed::config {

class Config {
 public:
  // path: names the file in messages. Throws kInvalidArgument naming file, line, column and the
  // nearest known name: what is not YAML, unknown keys, values of the wrong type or out of range,
  // settings that contradict one another.
  static Config parse(std::string_view text, const std::string& path);

  const std::string& path() const { return path_; }
  // Whether the file holds it: a setting, or anything of a section.
  bool is_given(std::string_view key) const;
  // As given, else the default. REQUIRES, as those below: a key of the table, and its type.
  const Value& value(std::string_view key) const;
  bool has_value(std::string_view key) const;
  bool flag(std::string_view key) const { return std::get<bool>(value(key)); }
  std::int64_t whole(std::string_view key) const { return std::get<std::int64_t>(value(key)); }
  double number(std::string_view key) const { return std::get<double>(value(key)); }
  const std::string& text(std::string_view key) const { return std::get<std::string>(value(key)); }
  // data.paths. Throws kUnsupported for paths in buckets, which nothing here reads;
  // kInvalidArgument where none is given; purpose: "to shard".
  Paths data_paths(std::string_view purpose) const;

  // Whether a setting has an effect, as the others are; else why_unused says why not.
  bool is_used(const Setting& setting) const { return why_unused(setting).empty(); }
  std::string why_unused(const Setting& setting) const;

  // Throws an error about a setting: "FILE: line 3, column 5: data.paths: what".
  [[noreturn]] void refuse(ErrorKind kind, std::string_view key, const std::string& what) const;

 private:
  explicit Config(std::string path) : path_(std::move(path)) {}
  void read_section(const YamlNode& node, const std::string& section);
  void read_setting(const Setting& setting, const YamlNode& node);
  void check_needs() const;
  void check_contradictions() const;

  std::string path_;
  std::map<std::string, Value, std::less<>> given_;
  std::map<std::string, Place, std::less<>> places_;  // of settings and sections
};

}  // namespace cellfeed::config
