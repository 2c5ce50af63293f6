#include "cellfeed/format/shared_axis.h"

#include <mutex>
#include <utility>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::format {
namespace {

struct Last {
  ForkSafeMutex mutex;
  std::weak_ptr<const matrix::GeneAxis> axis;
};

Last& last() {
  static Last* const last = new Last;  // for good: stores may be opened while the process ends
  return *last;
}

}  // namespace

std::shared_ptr<const matrix::GeneAxis> share_axis(matrix::GeneAxis axis) {
  std::shared_ptr<const matrix::GeneAxis> known;
  {
    const std::lock_guard lock(last().mutex);
    known = last().axis.lock();
  }
  if (known && known->names == axis.names) return known;
  auto own = std::make_shared<const matrix::GeneAxis>(std::move(axis));
  const std::lock_guard lock(last().mutex);
  last().axis = own;
  return own;
}

}  // namespace cellfeed::format
