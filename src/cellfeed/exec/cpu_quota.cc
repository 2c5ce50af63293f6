#include "cellfeed/exec/cpu_quota.h"

#include <sched.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <fstream>
#include <sstream>
#include <string_view>
#include <system_error>
#include <thread>

#include "cellfeed/exec/group_limits.h"

namespace cellfeed::exec {
namespace {

constexpr double kNoLimit = 1e6;

// "max 100000" or "150000 100000": microseconds of CPU time in a period.
double cpu_limit_v2(const std::string& directory) {
  std::ifstream in(directory + "/cpu.max");
  std::string quota;
  double period = 0;
  if (!(in >> quota >> period) || quota == "max" || period <= 0) return kNoLimit;
  std::istringstream digits(quota);
  double microseconds = 0;
  return digits >> microseconds && microseconds > 0 ? microseconds / period : kNoLimit;
}

double cpu_limit_v1(const std::string& directory) {
  std::ifstream quota_in(directory + "/cpu.cfs_quota_us");
  std::ifstream period_in(directory + "/cpu.cfs_period_us");
  double quota = 0;
  double period = 0;
  const bool has_limit = quota_in >> quota && period_in >> period && quota > 0 && period > 0;
  return has_limit ? quota / period : kNoLimit;
}

}  // namespace

double cpu_quota(const std::string& group_root, const std::string& membership) {
  return std::min(kNoLimit,
                  strictest_group_limit(group_root, membership, "cpu", cpu_limit_v1, cpu_limit_v2));
}

int online_cpu_count() { return std::max(1, static_cast<int>(::sysconf(_SC_NPROCESSORS_ONLN))); }

int thread_count_of(const CpuShare& share) {
  const double quota = std::ceil(std::max(share.quota, 1.0));
  const int threads = static_cast<int>(std::min<double>(quota, std::max(share.allowed, 1)));
  const bool is_bound = share.allowed < share.online;
  return is_bound ? threads : std::max(1, threads / std::max(share.local_ranks, 1));
}

int local_rank_count(const char* local_world_size) {
  const std::string_view text = local_world_size == nullptr ? "" : local_world_size;
  int ranks = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ranks);
  const bool is_number = error == std::errc() && end == text.data() + text.size();
  return is_number && ranks > 0 ? ranks : 1;
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
