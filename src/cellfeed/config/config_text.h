// A configuration as text: its effective settings, and the schema of all configurations. Pure.
#pragma once

#include <string>

#include "cellfeed/config/config.h"

namespace cellfeed::config {

// YAML that is the same configuration when it is read again: every setting that has an effect, with
// its unit, and whether it is a default; the others as comments that say why they have none.
std::string effective_settings_yaml(const Config& config);

// JSON: {"path": ..., "settings": {"data.paths": {"value", "unit", "is_given", "unused"}, ...}};
// unused: why it has no effect, "" where it has.
std::string effective_settings_json(const Config& config);

// JSON Schema, draft 2020-12, of a configuration file. It knows names, types, ranges and choices,
// not which settings go together.
std::string schema_json();

}  // namespace cellfeed::config
