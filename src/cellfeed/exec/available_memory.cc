#include "cellfeed/exec/available_memory.h"

#include <algorithm>
#include <fstream>
#include <limits>

#include "cellfeed/exec/group_limits.h"

namespace cellfeed::exec {
namespace {

// Not a number: "max".
double read_bytes(const std::string& path) {
  std::ifstream in(path);
  double bytes = 0;
  return in >> bytes && bytes > 0 ? bytes : std::numeric_limits<double>::infinity();
}

double memory_limit_v1(const std::string& directory) {
  return read_bytes(directory + "/memory.limit_in_bytes");
}

double memory_limit_v2(const std::string& directory) {
  return std::min(read_bytes(directory + "/memory.max"), read_bytes(directory + "/memory.high"));
}

double read_available(const std::string& meminfo) {
  std::ifstream in(meminfo);
  for (std::string name; in >> name;) {
    double kilobytes = 0;
    if (name == "MemAvailable:") return in >> kilobytes ? kilobytes * 1024 : 0;
    in.ignore(std::numeric_limits<std::streamsize>::max(), '\n');
  }
  return 0;
}

}  // namespace

std::int64_t available_memory(const std::string& meminfo, const std::string& group_root,
                              const std::string& membership) {
  const double limit =
      strictest_group_limit(group_root, membership, "memory", memory_limit_v1, memory_limit_v2);
  return static_cast<std::int64_t>(std::min(read_available(meminfo), limit));
}

std::int64_t default_memory_budget(std::int64_t most, std::int64_t available) {
  constexpr std::int64_t kLeast = 32'000'000;
  if (available <= 0) return most;
  return std::clamp(available / 4, std::min(kLeast, most), most);
}

}  // namespace cellfeed::exec
