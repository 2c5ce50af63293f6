#include "cellfeed/exec/stop_scope.h"

#include <utility>

#include "cellfeed/base/error.h"

namespace cellfeed::exec {
namespace {

std::stop_token& of_this_thread() {
  thread_local std::stop_token stop;
  return stop;
}

}  // namespace

StopScope::StopScope(std::stop_token stop)
    : outer_(std::exchange(of_this_thread(), std::move(stop))) {}

StopScope::~StopScope() { of_this_thread() = std::move(outer_); }

const std::stop_token& current_stop() { return of_this_thread(); }

void throw_if_stopped() {
  if (current_stop().stop_requested()) throw Error(ErrorKind::kCancelled, "stopped before the end");
}

void sleep_unless_stopped(std::chrono::nanoseconds time) {
  std::mutex mutex;
  std::condition_variable_any never;
  std::unique_lock lock(mutex);
  never.wait_for(lock, current_stop(), time, [] { return false; });
  throw_if_stopped();
}

}  // namespace cellfeed::exec
