#include "cellfeed/io/look_anew.h"

#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::io {
namespace {

struct Rememberers {
  ForkSafeMutex mutex;  // guards all
  std::vector<std::function<void()>> all;
};

Rememberers& rememberers() {
  static auto* known = new Rememberers;
  return *known;
}

}  // namespace

void look_anew() {
  const std::scoped_lock lock(rememberers().mutex);
  for (const auto& forget : rememberers().all) forget();
}

void on_look_anew(std::function<void()> forget) {
  const std::scoped_lock lock(rememberers().mutex);
  rememberers().all.push_back(std::move(forget));
}

}  // namespace cellfeed::io
