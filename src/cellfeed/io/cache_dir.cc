#include "cellfeed/io/cache_dir.h"

#include <fmt/format.h>

#include <cstdlib>

namespace cellfeed::io {

std::string user_cache_dir() {
  const char* const named = std::getenv("XDG_CACHE_HOME");
  if (named != nullptr && *named == '/') return fmt::format("{}/cellfeed", named);
  const char* const home = std::getenv("HOME");
  if (home != nullptr && *home == '/') return fmt::format("{}/.cache/cellfeed", home);
  return "";
}

std::string chosen_cache_dir(std::string dir) {
  if (const char* named = std::getenv("CELLFEED_CACHE"); dir.empty() && named != nullptr)
    dir = std::string(named);
  return dir.empty() ? user_cache_dir() : dir;
}

}  // namespace cellfeed::io
