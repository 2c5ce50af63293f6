#include "cellfeed/format/shared_axis.h"

#include <deque>
#include <mutex>
#include <utility>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::format {
namespace {

// As many as files of one collection usually have: each new one is compared with these.
constexpr std::size_t kRemembered = 16;

using SharedAxis = std::shared_ptr<const matrix::GeneAxis>;

struct Recent {
  ForkSafeMutex mutex;                                     // guards axes
  std::deque<std::weak_ptr<const matrix::GeneAxis>> axes;  // the last one first
};

Recent& recent() {
  static Recent* const all = new Recent;  // for good: stores may be opened while the process ends
  return *all;
}

std::vector<SharedAxis> axes_in_use() {
  std::vector<SharedAxis> in_use;
  const std::lock_guard lock(recent().mutex);
  for (const auto& known : recent().axes)
    if (SharedAxis axis = known.lock()) in_use.push_back(std::move(axis));
  return in_use;
}

}  // namespace

SharedAxis share_axis(matrix::GeneAxis axis) {
  // Compared outside of the lock: threads that open stores do not wait for one another.
  for (SharedAxis& known : axes_in_use())
    if (known->names == axis.names) return std::move(known);
  auto own = std::make_shared<const matrix::GeneAxis>(std::move(axis));
  const std::lock_guard lock(recent().mutex);
  auto& axes = recent().axes;
  std::erase_if(axes, [](const auto& known) { return known.expired(); });
  axes.push_front(own);
  if (axes.size() > kRemembered) axes.pop_back();
  return own;
}

}  // namespace cellfeed::format
