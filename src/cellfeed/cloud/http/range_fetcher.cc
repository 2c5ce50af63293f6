#include "cellfeed/cloud/http/range_fetcher.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <exception>
#include <random>
#include <string>
#include <unordered_set>
#include <utility>
#include <vector>

#include "cellfeed/cloud/http/fetch_batch.h"
#include "cellfeed/cloud/http/http_loop.h"
#include "cellfeed/cloud/http/request_depth.h"
#include "cellfeed/exec/fork_guard.h"
#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::cloud {
namespace {

constexpr std::int64_t kMaxRequestBytes = std::int64_t{8} << 20;
constexpr std::chrono::milliseconds kFirstRangeWait{50};
constexpr std::chrono::milliseconds kLongestRangeWait{8000};
// A request is slow when it takes this many times as long as 95 of 100 do.
constexpr int kSlow = 3;
constexpr std::chrono::milliseconds kSlowAtLeast{300};
constexpr std::chrono::milliseconds kLateLook{100};
// Bytes that come slower than that are not waited for when the deadline is over, and none are when
// it is over this many times.
constexpr double kLeastBytesPerS = 8000;
constexpr int kLongest = 4;

constexpr const char* kDeadlineVariable = "CELLFEED_CLOUD_DEADLINE";
constexpr std::chrono::seconds kDeadline{120};

std::atomic<std::int64_t> n_requests{0};
std::atomic<std::int64_t> n_again{0};
std::atomic<std::int64_t> n_doubled{0};
std::atomic<std::int64_t> last_depth{RequestDepth::kFirst};
std::atomic<std::int64_t> usual_bytes{0};  // of a range, lately
constexpr std::int64_t kLately = 64;       // ranges

// Everything here happens on the loop's thread.
class Fetcher {
 public:
  explicit Fetcher(HttpLoop& loop) : loop_(loop) {}

  void add(const std::shared_ptr<FetchBatch>& batch, const std::vector<Piece>& pieces) {
    for (const Piece& piece : pieces)
      waiting_.push_back(std::make_shared<Job>(Job{.batch = batch, .piece = piece}));
    start_more();
  }

  void cancel(const FetchBatch* batch) {
    std::erase_if(waiting_, [&](const auto& job) { return job->batch.get() == batch; });
    std::vector<std::shared_ptr<Job>> ended;
    for (const auto& job : running_)
      if (job->batch.get() == batch) ended.push_back(job);
    for (const auto& job : ended) {
      stop(*job);
      running_.erase(job);
    }
    for (const auto& job : paused_)
      if (job->batch.get() == batch) job->is_cancelled = true;
    start_more();
  }

 private:
  struct Job {
    std::shared_ptr<FetchBatch> batch;
    Piece piece;
    int attempts = 0;
    Clock::time_point begun{};  // the first of them
    Clock::time_point asked{};  // the last
    HttpLoop::Transfer* transfer = nullptr;
    HttpLoop::Transfer* second = nullptr;  // the same asked again, while the first is slow
    std::vector<std::byte> second_bytes{};
    bool is_cancelled = false;
  };
  using JobPtr = std::shared_ptr<Job>;

  void start_more() {
    while (!waiting_.empty() && std::ssize(running_) < depth_.get()) {
      JobPtr job = waiting_.front();
      waiting_.pop_front();
      running_.insert(job);
      ask(job);
    }
    if (!is_looking_ && !running_.empty()) look_later();
  }

  void ask(const JobPtr& job) {
    job->asked = Clock::now();
    if (++job->attempts == 1) job->begun = job->asked;
    job->transfer = send(job, job->piece.out, false);
  }

  HttpLoop::Transfer* send(const JobPtr& job, std::span<std::byte> out, bool is_second) {
    ++n_requests;
    HttpRequest request = job->batch->address();
    request.out = out;
    request.offset = job->piece.offset;
    return loop_.start(std::move(request), {}, [this, job, is_second](const HttpAnswer& answer) {
      (is_second ? job->second : job->transfer) = nullptr;
      take(job, answer, is_second);
    });
  }

  void take(const JobPtr& job, const HttpAnswer& answer, bool is_second) {
    const auto length = std::ssize(job->piece.out);
    const RangeOutcome outcome =
        judge_range(answer, job->batch->object().version(), job->piece.offset, length);
    const auto now = Clock::now();
    if (outcome.is_throttled) depth_.add_throttled(now);
    const bool is_done = outcome.kind == RangeOutcome::Kind::kDone;
    // What the other one says is waited for.
    if (!is_done && (job->transfer != nullptr || job->second != nullptr)) return;
    if (is_done && is_second)
      std::memcpy(job->piece.out.data(), job->second_bytes.data(), job->second_bytes.size());
    stop(*job);
    running_.erase(job);
    if (is_done) {
      add_time(now - job->asked);
      depth_.add_done(length, !waiting_.empty(), now);
      last_depth = depth_.get();
      usual_bytes = usual_bytes + (length - usual_bytes) / kLately;
      job->batch->add_done();
    } else {
      fail(job, outcome, now);
    }
    start_more();
  }

  void fail(const JobPtr& job, const RangeOutcome& outcome, Clock::time_point now) {
    if (outcome.kind == RangeOutcome::Kind::kOldCredentials)
      return job->batch->add_old_credentials(job->piece);
    if (outcome.kind == RangeOutcome::Kind::kFailed) {
      job->batch->object().forget();
      return end_batch(*job, outcome.error_kind, outcome.reason);
    }
    const auto wait = std::max(outcome.wait, jittered_wait(job->attempts));
    const auto deadline = job->begun + job->batch->deadline();
    if (now + wait >= deadline)
      return end_batch(
          *job, outcome.error_kind,
          fmt::format("could not be read: asked {} times in {:.1f} s, the last answer was: {}",
                      job->attempts, seconds(now - job->begun), outcome.reason));
    ++n_again;
    paused_.insert(job);
    loop_.at(now + wait, [this, job] {
      paused_.erase(job);
      if (job->is_cancelled) return;
      waiting_.push_front(job);
      start_more();
    });
  }

  static double seconds(Clock::duration time) {
    return std::chrono::duration<double>(time).count();
  }

  // What else it asks for is of no use then.
  void end_batch(const Job& job, ErrorKind kind, const std::string& reason) {
    const std::shared_ptr<FetchBatch> batch = job.batch;
    batch->add_failure(kind, fmt::format("{} (offset {}, {} bytes)", reason, job.piece.offset,
                                         job.piece.out.size()));
    cancel(batch.get());
    batch->end();
  }

  // Half of it by chance, so that what failed together is not asked for again together.
  std::chrono::milliseconds jittered_wait(int attempts) {
    const auto whole = std::min(kLongestRangeWait, kFirstRangeWait * (1 << std::min(attempts, 10)));
    std::uniform_int_distribution<std::int64_t> share(whole.count() / 2, whole.count());
    return std::chrono::milliseconds(share(random_));
  }

  void stop(Job& job) {
    if (job.transfer != nullptr) loop_.abort(std::exchange(job.transfer, nullptr));
    if (job.second != nullptr) loop_.abort(std::exchange(job.second, nullptr));
    job.second_bytes = {};
  }

  void add_time(Clock::duration time) { times_[n_times_++ % times_.size()] = time; }
  Clock::duration slow_time() const {
    auto sorted = times_;
    const auto at = sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() * 95 / 100);
    std::ranges::nth_element(sorted, at);
    return std::max<Clock::duration>(kSlow * *at, kSlowAtLeast);
  }

  void look_later() {
    is_looking_ = true;
    loop_.at(Clock::now() + kLateLook, [this] {
      is_looking_ = false;
      end_late_ones();
      double_slow_ones();
      if (!running_.empty()) look_later();
    });
  }
  // The one that is asked a second time is waited for alone where the first has failed.
  static std::size_t received(const Job& job) {
    const HttpLoop::Transfer* transfer = job.transfer != nullptr ? job.transfer : job.second;
    return transfer == nullptr ? 0 : HttpLoop::received(*transfer);
  }
  static bool is_late(const Job& job, Clock::time_point now) {
    const auto deadline = job.batch->deadline();
    if (now - job.begun < deadline) return false;
    return now - job.begun > kLongest * deadline ||
           static_cast<double>(received(job)) < kLeastBytesPerS * seconds(now - job.asked);
  }
  void end_late_ones() {
    const auto now = Clock::now();
    std::vector<JobPtr> late;
    for (const JobPtr& job : running_)
      if (is_late(*job, now)) late.push_back(job);
    for (const JobPtr& job : late) {
      if (!running_.contains(job)) continue;  // ended with another of its batch
      const std::size_t n_received = received(*job);
      stop(*job);
      running_.erase(job);
      end_batch(
          *job, ErrorKind::kIo,
          fmt::format("could not be read: asked {} times in {:.1f} s, and {} bytes of the "
                      "last answer came; for a slow link, set {} to more seconds",
                      job->attempts, seconds(now - job->begun), n_received, kDeadlineVariable));
    }
  }
  void double_slow_ones() {
    if (n_times_ < times_.size()) return;
    const auto slow = slow_time();
    const auto now = Clock::now();
    for (const JobPtr& job : running_) {
      if (job->second != nullptr || job->transfer == nullptr || now - job->asked < slow) continue;
      if (n_doubled.load() * 50 > n_requests.load()) return;  // of all, one in fifty at most
      ++n_doubled;
      job->second_bytes.resize(job->piece.out.size());
      job->second = send(job, job->second_bytes, true);
    }
  }

  HttpLoop& loop_;
  std::deque<JobPtr> waiting_;
  std::unordered_set<JobPtr> running_;
  std::unordered_set<JobPtr> paused_;  // until they are asked for again
  RequestDepth depth_;
  std::array<Clock::duration, 128> times_{};  // that the last requests took
  std::size_t n_times_ = 0;
  bool is_looking_ = false;
  std::minstd_rand random_{std::random_device()()};
};

struct LoopAndFetcher {
  HttpLoop* loop;
  std::shared_ptr<Fetcher> fetcher;
};

LoopAndFetcher& this_process() {
  static auto* all = new exec::PerProcess<LoopAndFetcher>;
  return all->get([] {
    HttpLoop& loop = http_loop();
    return LoopAndFetcher{&loop, std::make_shared<Fetcher>(loop)};
  });
}

class PendingRanges final : public io::PendingReads {
 public:
  PendingRanges(std::shared_ptr<const HttpObject> object, std::vector<Piece> pieces)
      : object_(std::move(object)),
        generation_(exec::fork_generation()),
        batch_(std::make_shared<FetchBatch>(object_, object_->request(false), pieces.size())) {
    submit(std::move(pieces));
  }
  ~PendingRanges() override {
    if (generation_ != exec::fork_generation() || batch_->is_ended()) return;
    auto& [loop, fetcher] = this_process();
    loop->post([fetcher = fetcher, batch = batch_] {
      fetcher->cancel(batch.get());
      batch->end();
    });
    const exec::StopScope in_any_case({});
    try {
      batch_->wait();
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch): nobody waits for the bytes
    }
  }
  PendingRanges(const PendingRanges&) = delete;
  PendingRanges& operator=(const PendingRanges&) = delete;

  void wait() override {
    if (generation_ != exec::fork_generation())
      throw_error(ErrorKind::kInternal, object_->path(), "reads of a parent process");
    std::vector<Piece> refused = batch_->wait();
    if (!refused.empty() && !is_renewed_) {
      // Where it throws, these pieces are still to be read, by whoever waits next.
      batch_->begin_again(object_->request(true), refused.size());
      is_renewed_ = true;
      submit_again(std::move(refused));
      refused = batch_->wait();
    }
    if (!refused.empty())
      throw_error(ErrorKind::kIo, object_->path(),
                  "the server refused to read it: its credentials have expired, and those found "
                  "now are refused too; renew them");
  }

 private:
  void submit_again(std::vector<Piece> pieces) {
    try {
      submit(std::move(pieces));
    } catch (...) {
      // Nobody is to take them for read.
      batch_->add_failure(ErrorKind::kIo, "could not be asked for again");
      batch_->end();
      throw;
    }
  }
  void submit(std::vector<Piece> pieces) {
    auto& [loop, fetcher] = this_process();
    loop->post([fetcher = fetcher, batch = batch_, pieces = std::move(pieces)] {
      fetcher->add(batch, pieces);
    });
  }

  const std::shared_ptr<const HttpObject> object_;
  const std::uint64_t generation_;
  const std::shared_ptr<FetchBatch> batch_;
  bool is_renewed_ = false;  // what was refused is asked for again, with new credentials
};

}  // namespace

std::unique_ptr<io::PendingReads> begin_ranges(std::shared_ptr<const HttpObject> object,
                                               std::span<const io::ReadRequest> requests) {
  exec::throw_if_stopped();
  std::vector<Piece> pieces;
  for (const io::ReadRequest& request : requests)
    for (std::int64_t done = 0; done < std::ssize(request.out); done += kMaxRequestBytes) {
      const auto length = std::min(kMaxRequestBytes, std::ssize(request.out) - done);
      pieces.push_back(
          {request.offset + done,
           request.out.subspan(static_cast<std::size_t>(done), static_cast<std::size_t>(length))});
    }
  if (pieces.empty()) return nullptr;
  return std::make_unique<PendingRanges>(std::move(object), std::move(pieces));
}

FetchCounts fetch_counts() {
  return {.requests = n_requests, .again = n_again, .doubled = n_doubled, .depth = last_depth};
}

std::int64_t bytes_in_flight() { return 2 * last_depth * usual_bytes; }

std::chrono::milliseconds fetch_deadline() {
  const char* given = std::getenv(kDeadlineVariable);
  if (given == nullptr || *given == '\0') return kDeadline;
  double seconds = 0;
  const std::string_view text(given);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), seconds);
  if (error != std::errc() || end != text.data() + text.size() || !(seconds > 0 && seconds < 1e6))
    throw_invalid("{} must be a number of seconds above 0: '{}'", kDeadlineVariable, text);
  return std::chrono::milliseconds(static_cast<std::int64_t>(seconds * 1000));
}

}  // namespace cellfeed::cloud
