// group_limits: what the control groups that a process belongs to allow. Internal to exec.
// Thread-safe.
#pragma once

#include <string>

namespace cellfeed::exec {

// A limit that the files of one group's directory set; a large number where they set none.
using ReadLimit = double (*)(const std::string& directory);

// The strictest limit of this process's groups and of all groups above them, versions 1 and 2.
// `controller` is the one of version 1. `group_root` is where groups are mounted, `membership` a
// file like /proc/self/cgroup.
double strictest_group_limit(const std::string& group_root, const std::string& membership,
                             const std::string& controller, ReadLimit read_v1, ReadLimit read_v2);

}  // namespace cellfeed::exec
