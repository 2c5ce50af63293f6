#include "cellfeed/cloud/http/recent_objects.h"

#include <mutex>
#include <utility>

namespace cellfeed::cloud {
namespace {

constexpr std::chrono::seconds kAge{10};
constexpr std::size_t kMostKnown = 100'000;

}  // namespace

std::optional<ObjectVersion> RecentObjects::find(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(path);
  if (found == known_.end() || Clock::now() - found->second.learned > kAge) return std::nullopt;
  return found->second.version;
}

void RecentObjects::make_room() {
  if (known_.size() < kMostKnown) return;
  const auto now = Clock::now();
  std::erase_if(known_, [&](const auto& known) { return now - known.second.learned > kAge; });
  if (known_.size() >= kMostKnown) known_.clear();
}

void RecentObjects::keep(const std::string& path, ObjectVersion version) {
  const std::scoped_lock lock(mutex_);
  make_room();
  Known& known = known_[path];
  if (known.version.mark() != version.mark()) known.head = nullptr;
  known.version = std::move(version);
  known.learned = Clock::now();
}

void RecentObjects::forget(const std::string& path) {
  const std::scoped_lock lock(mutex_);
  known_.erase(path);
}

void RecentObjects::forget_below(const std::string& prefix) {
  const std::scoped_lock lock(mutex_);
  std::erase_if(known_, [&](const auto& known) { return known.first.starts_with(prefix); });
}

RecentObjects::Head RecentObjects::find_head(const std::string& path,
                                             const ObjectVersion& version) {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(path);
  const std::string mark = version.mark();
  if (found == known_.end() || mark.empty() || found->second.version.mark() != mark) return nullptr;
  return found->second.head;
}

void RecentObjects::keep_head(const std::string& path, const ObjectVersion& version, Head head) {
  const std::scoped_lock lock(mutex_);
  const auto found = known_.find(path);
  if (found != known_.end() && found->second.version.mark() == version.mark())
    found->second.head = std::move(head);
}

RecentObjects& recent_objects() {
  static auto* recent = new RecentObjects;
  return *recent;
}

}  // namespace cellfeed::cloud
