#include "cellfeed/loader/window_reader.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/exec/map_guard.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_start.h"

namespace cellfeed::loader {
namespace {

// Small windows are read several ahead, so that a source always has as much to do as it says.
constexpr std::int64_t kMaxWindowsAhead = 64;

}  // namespace

WindowReader::WindowReader(std::shared_ptr<const LoaderCore> core, const BatchSequence& batches,
                           exec::ThreadPool& pool, const BatchQueue& queue,
                           const std::stop_token& stop)
    : core_(std::move(core)),
      batches_(batches),
      pool_(pool),
      queue_(queue),
      live_(std::make_shared<LiveWindows>(core_)),
      on_stop_(stop, [this] { stop_.request_stop(); }),
      thread_(exec::start_thread([this](const std::stop_token&) { run(); })) {}

WindowReader::~WindowReader() {
  stop_.request_stop();
  thread_.join();
}

std::shared_ptr<Window> WindowReader::take() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, stop_.get_token(), [&] { return !read_.empty() || is_read_out_; });
  if (stop_.stop_requested()) return nullptr;
  if (read_.empty()) {
    if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
    return nullptr;
  }
  std::shared_ptr<Window> window = std::move(read_.front());
  read_.pop_front();
  --windows_ahead_;
  bytes_ahead_ -= window->bytes_used();
  changed_.notify_all();
  return window;
}

// ---- the thread

void WindowReader::run() noexcept {
  const exec::StopScope scope(stop_.get_token());
  std::exception_ptr error;
  try {
    error = read_until_over();
  } catch (...) {
    error = std::current_exception();
  }
  const std::lock_guard lock(mutex_);
  error_ = std::move(error);
  is_read_out_ = true;
  changed_.notify_all();
}

// Windows are begun ahead of the one that is waited for, so that a disk has its next reads while it
// does the last of these. The first is waited for alone: nothing delays the first batch.
std::exception_ptr WindowReader::read_until_over() {
  std::list<std::shared_ptr<Window>> begun;
  std::shared_ptr<Window> planned;
  std::exception_ptr error;
  exec::ByteBudget& budget = core_->account->budget();
  // What threads inflate in; windows are inflated one at a time.
  const auto scratch = budget.take(core_->inflating_bytes);
  const std::int64_t room = std::max(budget.limit() - scratch.bytes(), budget.limit() / 4);
  WindowSizer sizer(*core_->collection, batches_, {room, core_->caches_everything});
  bool is_first = true;
  const auto begin_more = [&] {
    while (!error && has_room_ahead(begun.empty())) {
      if (!planned) {
        PlannedWindow next = sizer.next_window();
        if (next.batches.empty()) return;
        planned = make_window(std::move(next));
      }
      if (!admit(*planned, begun.empty())) return;
      begin(*planned);
      begun.push_back(std::move(planned));
      if (std::exchange(is_first, false)) return;
    }
  };
  for (;;) {
    try {
      begin_more();
    } catch (...) {
      error = std::current_exception();  // comes after the windows that are begun
    }
    if (begun.empty() || stop_.stop_requested()) return error;
    finish(*begun.front());
    hand_over(std::move(begun.front()));
    begun.pop_front();
  }
}

std::shared_ptr<Window> WindowReader::make_window(PlannedWindow planned) {
  auto window = std::make_unique<Window>(core_->matrices, std::move(planned));
  ++live_->n;
  // Where this throws, the window is counted out too.
  return {window.release(), [live = live_](Window* done) {
            delete done;
            --live->n;
            live->core->account->budget().recheck();
          }};
}

bool WindowReader::has_room_ahead(bool waits) {
  std::unique_lock lock(mutex_);
  const auto has_room = [&] {
    return windows_ahead_ == 0 ||
           (windows_ahead_ < kMaxWindowsAhead && bytes_ahead_ < read_ahead_bytes_);
  };
  if (waits) changed_.wait(lock, stop_.get_token(), has_room);
  return !stop_.stop_requested() && has_room();
}

// Takes what the window needs from the budget. Windows further ahead leave half of it to others.
bool WindowReader::admit(Window& window, bool waits) {
  const std::int64_t bytes = window.plan().bytes_held + window.list_bytes();
  exec::ByteBudget& budget = core_->account->budget();
  if (!waits && budget.used() + bytes > budget.limit() / 2) return false;
  auto lease = waits ? acquire_bytes(*core_, bytes, stop_.get_token(),
                                     [this] { return queue_.is_empty() && live_->n <= 1; })
                     : budget.try_acquire(bytes);
  if (!lease) return false;
  window.lease = std::move(*lease);
  return true;
}

void WindowReader::begin(Window& window) {
  exec::take_lost_page_signals();
  window.begin(stop_.get_token(), *core_->counters);
  const std::lock_guard lock(mutex_);
  ++windows_ahead_;
  bytes_ahead_ += window.bytes_used();
  read_ahead_bytes_ = window.plan().read_ahead_bytes;
}

void WindowReader::finish(Window& window) {
  window.wait(*core_->counters);
  window.finish(
      [this](std::int64_t tasks, const std::function<void(std::int64_t)>& task) {
        pool_.parallel_for(
            tasks,
            [&](std::int64_t i) {
              if (stop_.stop_requested()) throw Error(ErrorKind::kCancelled, "loading was stopped");
              task(i);
            },
            core_->inflating_threads);
      },
      *core_->counters);
  // What was planned is what scattered rows need at most.
  window.lease.set(window.bytes_held() + window.list_bytes());
}

void WindowReader::hand_over(std::shared_ptr<Window> window) {
  const std::lock_guard lock(mutex_);
  read_.push_back(std::move(window));
  changed_.notify_all();
}

}  // namespace cellfeed::loader
