// Configuration files, as verbs read them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cellfeed/config/config.h"

namespace cellfeed::cli {

// --config; what the verb takes from it belongs into help.
void add_config_option(CLI::App& verb, std::string& path, const std::string& help);
// Throws kNotFound, kIo, and what config::Config::parse throws.
config::Config read_config(const std::string& path);

}  // namespace cellfeed::cli
