// RecentObjects: what was learned of objects a moment ago, so that who looks at a path, opens it
// and looks at its first bytes asks once. What it says may be old: who reads pins the version, and
// is told where it is another by then. Thread-safe.
#pragma once

#include <chrono>
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/cloud/http/http_object.h"

namespace cellfeed::cloud {

class RecentObjects {
 public:
  using Head = std::shared_ptr<const std::vector<std::byte>>;

  // Empty where nothing is known, or what is known is old.
  std::optional<ObjectVersion> find(const std::string& path);
  void keep(const std::string& path, ObjectVersion version);
  void forget(const std::string& path);
  // Of what begins so.
  void forget_below(const std::string& prefix);

  // A folder that holds something.
  bool is_folder(const std::string& path) { return find(path + "/").has_value(); }
  void keep_folder(const std::string& path) { keep(path + "/", {}); }

  // The first bytes of that version; null where they are not known.
  Head find_head(const std::string& path, const ObjectVersion& version);
  void keep_head(const std::string& path, const ObjectVersion& version, Head head);

 private:
  struct Known {
    ObjectVersion version;
    Clock::time_point learned{};
    Head head;
  };
  void make_room();

  ForkSafeMutex mutex_;  // guards what follows
  std::unordered_map<std::string, Known> known_;
};

RecentObjects& recent_objects();

}  // namespace cellfeed::cloud
