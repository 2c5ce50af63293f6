// available_memory: what this process may still use before something else has to go.
// Thread-safe.
#pragma once

#include <cstdint>
#include <string>

namespace cellfeed::exec {

// Bytes: what the system calls available (its page cache can be given back, so that counts), and
// the limits of the control groups, versions 1 and 2, whichever is less. 0 where the system does
// not say.
std::int64_t available_memory(const std::string& meminfo = "/proc/meminfo",
                              const std::string& group_root = "/sys/fs/cgroup",
                              const std::string& membership = "/proc/self/cgroup");

// What work that was given no budget may take: `most`, or a quarter of what is available where that
// is less, but not below 32 MB.
std::int64_t default_memory_budget(std::int64_t most, std::int64_t available = available_memory());

}  // namespace cellfeed::exec
