#include "cellfeed/convert/cache/packed_work.h"

#include <algorithm>
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
constexpr std::chrono::milliseconds kLookAtQuestions{100};

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

PackedWork::Question::Question(PackedWork& work) : work_(work), scope_(work.give_up_.get_token()) {
  const std::lock_guard lock(registry().mutex);
  work_.asked_ = Clock::now();
}

PackedWork::Question::~Question() {
  const std::lock_guard lock(registry().mutex);
  work_.asked_.reset();
}

void end_packed_work() {
  using Clock = PackedWork::Clock;
  PackedWork::Registry& r = PackedWork::registry();
  std::unique_lock lock(r.mutex);
  r.is_ending = true;
  for (PackedWork* work : r.all) work->stop_.request_stop();
  const auto begun = Clock::now();
  while (!r.changed.wait_for(lock, kLookAtQuestions, [&] { return r.all.empty(); }))
    for (PackedWork* work : r.all)
      if (work->asked_ && Clock::now() - std::max(*work->asked_, begun) > kLastWait)
        work->give_up_.request_stop();
}

}  // namespace cellfeed::convert
