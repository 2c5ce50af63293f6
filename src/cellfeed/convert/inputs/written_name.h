// written_name: what a matrix of the inputs is called beside X of the output. Pure.
#pragma once

#include <string>

namespace cellfeed::convert {

// As in the inputs; but X itself, where a layer becomes X, is a layer of that name.
inline std::string written_name(const std::string& name) { return name == "X" ? "layers/X" : name; }

}  // namespace cellfeed::convert
