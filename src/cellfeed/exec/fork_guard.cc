#include "cellfeed/exec/fork_guard.h"

#include <pthread.h>

#include <cstdlib>

namespace cellfeed::exec {
namespace {

std::atomic<std::uint64_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

// Before main, so that no fork can come first.
const bool is_registered = [] {
  if (::pthread_atfork(nullptr, nullptr, count_fork) != 0) std::abort();
  return true;
}();

}  // namespace

std::uint64_t fork_generation() { return generation.load(std::memory_order_relaxed); }

}  // namespace cellfeed::exec
