// The folder of all caches: copies and blocks of objects, rows of files. Thread-safe.
#pragma once

#include <string>

namespace cellfeed::io {

// XDG_CACHE_HOME/cellfeed, else ~/.cache/cellfeed; empty where the environment names neither.
std::string user_cache_dir();
// dir, or what CELLFEED_CACHE names where that is "", else user_cache_dir().
std::string chosen_cache_dir(std::string dir);

}  // namespace cellfeed::io
