// What went wrong with a cache while reading went on, for those who say it. Thread-safe.
#pragma once

#include <string>
#include <vector>

namespace cellfeed::io {

// Each text once, until it is taken.
void warn_of_cache(std::string text);
std::vector<std::string> take_cache_warnings();

}  // namespace cellfeed::io
