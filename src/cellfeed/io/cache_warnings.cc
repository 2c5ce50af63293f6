#include "cellfeed/io/cache_warnings.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::io {
namespace {

struct CacheWarnings {
  ForkSafeMutex mutex;  // guards what follows
  std::vector<std::string> texts;
};

CacheWarnings& cache_warnings() {
  static auto* all = new CacheWarnings;  // never destroyed: threads may outlive main
  return *all;
}

}  // namespace

void warn_of_cache(std::string text) {
  CacheWarnings& all = cache_warnings();
  const std::lock_guard lock(all.mutex);
  if (std::ranges::find(all.texts, text) == all.texts.end()) all.texts.push_back(std::move(text));
}

std::vector<std::string> take_cache_warnings() {
  CacheWarnings& all = cache_warnings();
  const std::lock_guard lock(all.mutex);
  return std::exchange(all.texts, {});
}

}  // namespace cellfeed::io
