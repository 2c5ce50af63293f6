// cpu_quota: how many CPUs this process may use, from its control groups and its affinity mask.
// Thread-safe.
#pragma once

#include <string>

namespace cellfeed::exec {

// CPUs' worth of time that the control groups allow, versions 1 and 2; a large number where there
// is no limit. `group_root` is where they are mounted, `membership` a file like /proc/self/cgroup.
double cpu_quota(const std::string& group_root = "/sys/fs/cgroup",
                 const std::string& membership = "/proc/self/cgroup");

int affinity_cpu_count();

}  // namespace cellfeed::exec
