// Suggestions for a name that was mistyped. Pure functions.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace cellfeed {

// Edits (insert, remove, replace, swap neighbours) from one text to the other, by bytes; upper and
// lower case are the same.
std::size_t edit_distance(std::string_view a, std::string_view b);

// The known name that `name` is most likely meant to be; empty where none is near.
std::string nearest_name(std::string_view name, std::span<const std::string> known);

// "; did you mean 'cell_type'? there are: cell_type, depth": the end of an error about `name`. Long
// lists are cut.
std::string suggestion(std::string_view name, std::span<const std::string> known);

}  // namespace cellfeed
