#include "cellfeed/cloud/cache/cache_room.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <string>
#include <utility>

#include "cellfeed/cloud/cache/kept_copies.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kMostAtOnce = std::int64_t{64} << 20;

struct RoomOfFolders {
  std::mutex mutex;  // guards what follows
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> left;
};

RoomOfFolders& room_of_folders() {
  static auto* all = new exec::PerProcess<RoomOfFolders>;
  return all->get([] { return RoomOfFolders(); });
}

}  // namespace

bool take_room(const std::string& folder, std::int64_t bytes, std::int64_t limit) {
  RoomOfFolders& all = room_of_folders();
  const std::scoped_lock lock(all.mutex);
  std::int64_t& left = all.left[{folder, limit}];
  if (left < bytes)
    left = find_room(folder, std::max(bytes, std::min(limit / 16, kMostAtOnce)), limit);
  if (left < bytes) return false;
  left -= bytes;
  return true;
}

}  // namespace cellfeed::cloud
