#include "cellfeed/cloud/http/http_ask.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <utility>

#include "cellfeed/cloud/http/http_object.h"
#include "cellfeed/cloud/http/range_fetcher.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

// A name with a mistake is not waited for.
constexpr int kTriesToReach = 3;
constexpr std::chrono::milliseconds kLongestAskWait{8000};
constexpr std::size_t kSlowBytesPerMs = 64;

}  // namespace

HttpAnswer ask(HttpRequest request, const HttpTimeouts& timeouts) {
  struct Waiting {
    std::mutex mutex;  // guards is_there and answer
    std::condition_variable_any came;
    bool is_there = false;
    HttpAnswer answer;
    HttpLoop::Transfer* transfer = nullptr;  // of the loop's thread alone
  };
  exec::throw_if_stopped();
  const auto waiting = std::make_shared<Waiting>();
  HttpLoop& loop = http_loop();
  loop.post([&loop, waiting, timeouts, request = std::move(request)] {
    waiting->transfer = loop.start(request, timeouts, [waiting](HttpAnswer answer) {
      waiting->transfer = nullptr;
      const std::scoped_lock lock(waiting->mutex);
      waiting->answer = std::move(answer);
      waiting->is_there = true;
      waiting->came.notify_all();
    });
  });
  std::unique_lock lock(waiting->mutex);
  try {
    exec::wait_unless_stopped(waiting->came, lock, [&] { return waiting->is_there; });
  } catch (...) {
    loop.post([&loop, waiting] {
      if (waiting->transfer != nullptr) loop.abort(std::exchange(waiting->transfer, nullptr));
    });
    throw;
  }
  return std::move(waiting->answer);
}

HttpAnswer ask_until_answered(const HttpRequest& request) {
  const auto given =
      fetch_deadline() + std::chrono::milliseconds(request.body.size() / kSlowBytesPerMs);
  const auto deadline = Clock::now() + given;
  int n_unreachable = 0;
  for (std::chrono::milliseconds wait{100};; wait = std::min(2 * wait, kLongestAskWait)) {
    HttpAnswer answer = ask(request, {.whole = given});
    if (!is_transient(answer)) return answer;
    if (answer.is_unreachable && ++n_unreachable == kTriesToReach) return answer;
    const auto until = std::max(wait, retry_after(answer));
    if (Clock::now() + until >= deadline) return answer;
    exec::sleep_unless_stopped(until);
  }
}

}  // namespace cellfeed::cloud
