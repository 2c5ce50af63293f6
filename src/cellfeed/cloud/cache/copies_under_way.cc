#include "cellfeed/cloud/cache/copies_under_way.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <utility>

#include "cellfeed/base/fork_safe_mutex.h"

namespace cellfeed::cloud {
namespace {

struct Copies {
  ForkSafeMutex mutex;
  // State below is protected by mutex.
  std::map<std::uint64_t, CopyProgress> by_number;
  std::uint64_t n_begun = 0;
  std::function<void(const std::vector<CopyProgress>&)> observer;

  std::vector<CopyProgress> listed() const {
    std::vector<CopyProgress> found;
    for (const auto& [number, progress] : by_number) found.push_back(progress);
    return found;
  }
};

Copies& copies() {
  static auto* all = new Copies;  // never destroyed: threads may outlive main
  return *all;
}

}  // namespace

std::vector<CopyProgress> copies_under_way() {
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  return all.listed();
}

void observe_copies(std::function<void(const std::vector<CopyProgress>&)> observer) {
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  all.observer = std::move(observer);
}

CopyUnderWay::CopyUnderWay(std::string of_object, std::int64_t done, std::int64_t total)
    : done_before_(done) {
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  number_ = all.n_begun++;
  all.by_number.emplace(number_, CopyProgress{std::move(of_object), done, total});
}

CopyUnderWay::~CopyUnderWay() {
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  all.by_number.erase(number_);
}

void CopyUnderWay::note(std::int64_t done) const {
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start_;
  Copies& all = copies();
  const std::lock_guard lock(all.mutex);
  CopyProgress& progress = all.by_number.at(number_);
  progress.done = done;
  progress.rate = static_cast<double>(done - done_before_) / std::max(1e-9, elapsed.count());
  if (all.observer) all.observer(all.listed());
}

}  // namespace cellfeed::cloud
