#include "cellfeed/exec/group_limits.h"

#include <algorithm>
#include <fstream>
#include <limits>
#include <sstream>

namespace cellfeed::exec {
namespace {

// The strictest limit of the group and of all groups above it. In a container the path may name
// groups that are not mounted; those have no file and set no limit.
double strictest(const std::string& mount, std::string group, ReadLimit read) {
  double limit = read(mount);
  while (!group.empty() && group != "/") {
    limit = std::min(limit, read(mount + group));
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  return limit;
}

bool lists(const std::string& controllers, const std::string& controller) {
  std::istringstream in(controllers);
  for (std::string name; std::getline(in, name, ',');) {
    if (name == controller) return true;
  }
  return false;
}

}  // namespace

double strictest_group_limit(const std::string& group_root, const std::string& membership,
                             const std::string& controller, ReadLimit read_v1, ReadLimit read_v2) {
  double limit = std::numeric_limits<double>::infinity();
  std::ifstream in(membership);
  // Lines read "number:controllers:/path"; version 2 has no controllers.
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      limit = std::min(limit, strictest(group_root, group, read_v2));
    } else if (lists(controllers, controller)) {
      limit = std::min(limit, strictest(group_root + "/" + controllers, group, read_v1));
      limit = std::min(limit, strictest(group_root + "/" + controller, group, read_v1));
    }
  }
  return limit;
}

}  // namespace cellfeed::exec
