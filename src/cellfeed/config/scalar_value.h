// Values of settings from YAML. Pure.
#pragma once

#include <string>

#include "cellfeed/config/settings.h"
#include "cellfeed/config/yaml_tree.h"

namespace cellfeed::config {

// By the core schema of YAML 1.2: true and false are booleans, digits are numbers, and what is
// quoted is text. Throws kInvalidArgument naming the place, what is allowed and what was meant.
Value read_value(const Setting& setting, const YamlNode& node, const std::string& path);

// "'yes'", "a list", "a group of settings": what a node is, for messages.
std::string describe_node(const YamlNode& node);

}  // namespace cellfeed::config
