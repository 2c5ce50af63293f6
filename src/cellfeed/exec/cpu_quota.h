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
int online_cpu_count();  // of the machine

// What thread counts follow from.
struct CpuShare {
  int allowed = 1;      // by the affinity mask
  int online = 1;       // of the machine
  double quota = 1e6;   // of the control groups
  int local_ranks = 1;  // processes of this job on this machine
};
// Threads for a process with that share, at least 1. Ranks that were not given processors of their
// own divide what there is.
int thread_count_of(const CpuShare& share);
// LOCAL_WORLD_SIZE, which torchrun and others set; 1 where it is not there or no number.
int local_rank_count(const char* local_world_size);

}  // namespace cellfeed::exec
