#include "cellfeed/exec/cpu_quota.h"

#include <sched.h>

#include <algorithm>
#include <fstream>
#include <sstream>
#include <thread>

namespace cellfeed::exec {
namespace {

constexpr double kNoLimit = 1e6;

// "max 100000" or "150000 100000": microseconds of CPU time in a period.
double read_v2_limit(const std::string& directory) {
  std::ifstream in(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return kNoLimit;
  std::istringstream digits(quota);
  double microseconds = 0;
  return digits >> microseconds && microseconds > 0 ? microseconds / period : kNoLimit;
}

double read_v1_limit(const std::string& directory) {
  std::ifstream quota_in(directory + "/cpu.cfs_quota_us");
  std::ifstream period_in(directory + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  const bool has_limit = quota_in >> quota && period_in >> period && quota > 0 && period > 0;
  return has_limit ? quota / period : kNoLimit;
}

// The strictest limit of the group and of all groups above it. In a container the path may name
// groups that are not mounted; those have no file and set no limit.
double strictest(const std::string& mount, std::string group, double (*read)(const std::string&)) {
  double limit = read(mount);
  while (!group.empty() && group != "/") {
    limit = std::min(limit, read(mount + group));
    group.resize(group.find_last_of('/') == std::string::npos ? 0 : group.find_last_of('/'));
  }
  return limit;
}

bool lists_cpu(const std::string& controllers) {
  std::istringstream in(controllers);
  for (std::string name; std::getline(in, name, ',');) {
    if (name == "cpu") return true;
  }
  return false;
}

}  // namespace

double cpu_quota(const std::string& group_root, const std::string& membership) {
  double limit = kNoLimit;
  std::ifstream in(membership);
  // Lines read "number:controllers:/path"; version 2 has no controllers.
  for (std::string line; std::getline(in, line);) {
    const auto first = line.find(':');
    const auto second = first == std::string::npos ? first : line.find(':', first + 1);
    if (second == std::string::npos) continue;
    const std::string controllers = line.substr(first + 1, second - first - 1);
    const std::string group = line.substr(second + 1);
    if (controllers.empty()) {
      limit = std::min(limit, strictest(group_root, group, read_v2_limit));
    } else if (lists_cpu(controllers)) {
      limit = std::min(limit, strictest(group_root + "/" + controllers, group, read_v1_limit));
      limit = std::min(limit, strictest(group_root + "/cpu", group, read_v1_limit));
    }
  }
  return limit;
}

int affinity_cpu_count() {
  for (int n_cpus = 1024; n_cpus <= (1 << 20); n_cpus *= 4) {
    cpu_set_t* set = CPU_ALLOC(n_cpus);
    if (set == nullptr) break;
    const std::size_t bytes = CPU_ALLOC_SIZE(n_cpus);
    const bool fits = ::sched_getaffinity(0, bytes, set) == 0;
    const int count = fits ? CPU_COUNT_S(bytes, set) : 0;
    CPU_FREE(set);
    if (count > 0) return count;
  }
  return std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
}

}  // namespace cellfeed::exec
