#include "cellfeed/exec/fork_guard.h"

#include <pthread.h>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {
namespace {

std::atomic<std::uint64_t> generation{0};

void count_fork() { generation.fetch_add(1, std::memory_order_relaxed); }

bool register_fork_handler() {
  const int status = ::pthread_atfork(nullptr, nullptr, count_fork);
  if (status != 0) throw_errno(status, {}, "register the fork handler");
  return true;
}

}  // namespace

std::uint64_t fork_generation() {
  [[maybe_unused]] static const bool registered = register_fork_handler();
  return generation.load(std::memory_order_relaxed);
}

}  // namespace cellfeed::exec
