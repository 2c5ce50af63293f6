#include "cellfeed/convert/cache/packed_work.h"

#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <set>
#include <utility>

#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::convert {
namespace {

// Of servers that are asked whether a file is still as it was.
constexpr std::chrono::seconds kLastWait{5};

}  // namespace

struct PackedWork::Registry {
  std::mutex mutex;  // guards the rest
  std::condition_variable changed;
  std::set<PackedWork*> all;
  bool is_ending = false;
};

// Made when the program is loaded: one that a thread makes at its first use is locked for ever in a
// child that is forked meanwhile. Never destroyed: threads of an application may outlive
// everything.
static auto* const of_processes = new exec::PerProcess<std::unique_ptr<PackedWork::Registry>>;

PackedWork::Registry& PackedWork::registry() {
  return *of_processes->get([] { return std::make_unique<Registry>(); });
}

PackedWork::PackedWork(std::stop_source stop) : stop_(std::move(stop)) {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.all.insert(this);
  if (r.is_ending) stop_.request_stop();
}

PackedWork::~PackedWork() {
  Registry& r = registry();
  const std::lock_guard lock(r.mutex);
  r.all.erase(this);
  r.changed.notify_all();
}

void end_packed_work() {
  PackedWork::Registry& r = PackedWork::registry();
  std::unique_lock lock(r.mutex);
  r.is_ending = true;
  for (PackedWork* work : r.all) work->stop_.request_stop();
  const auto is_over = [&] { return r.all.empty(); };
  if (r.changed.wait_for(lock, kLastWait, is_over)) return;
  for (PackedWork* work : r.all) work->give_up_.request_stop();
  r.changed.wait(lock, is_over);
}

}  // namespace cellfeed::convert
