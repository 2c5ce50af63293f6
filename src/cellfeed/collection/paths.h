// Paths as users give them: a file, a shard directory, a glob, or several of these.
#pragma once

#include <string>
#include <vector>

namespace cellfeed::collection {

// Expands globs (sorted), keeps plain paths as they are. Throws kNotFound when a glob matches
// nothing.
std::vector<std::string> expand_paths(const std::vector<std::string>& paths);

}  // namespace cellfeed::collection
