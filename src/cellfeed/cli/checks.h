// Checks of options: their messages say what is allowed, what was given and the nearest name.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

namespace cellfeed::cli {

// A whole number from low to high; without high, any from low on.
CLI::Validator whole_number(std::int64_t low,
                            std::int64_t high = std::numeric_limits<std::int64_t>::max());
// A number from low to high.
CLI::Validator number_between(double low, double high);
// A finite number above 0.
CLI::Validator positive_number();
CLI::Validator one_of(std::vector<std::string> choices);

// What is wrong with a command line that does not parse: a mistyped verb or option is named with
// the nearest one, else it is what the parser says.
std::string usage_error(const CLI::App& program, const std::vector<std::string>& arguments,
                        const CLI::ParseError& error);

}  // namespace cellfeed::cli
