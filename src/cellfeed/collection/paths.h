// Paths as users give them: a file, a shard directory, a glob, or several of these.
#pragma once

#include <string>
#include <vector>

namespace cellfeed::collection {

// Expands globs of *, ? and [] (in the order of their bytes), keeps plain paths as they are. Throws
// kNotFound when a glob matches nothing, what a folder that cannot be listed says (its files would
// be missing), and kInvalidArgument where a file or folder is there twice, under whichever names.
std::vector<std::string> expand_paths(const std::vector<std::string>& paths);

}  // namespace cellfeed::collection
