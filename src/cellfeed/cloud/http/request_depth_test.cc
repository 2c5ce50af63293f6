#include "cellfeed/cloud/http/request_depth.h"

#include <gtest/gtest.h>

#include <queue>
#include <vector>

namespace cellfeed::cloud {
namespace {

using Time = RequestDepth::Time;
using std::chrono::duration;
using std::chrono::milliseconds;

// Requests of one size over a link that gives each its own rate until all of it is used, and that
// refuses what is above `most`.
struct Link {
  double latency_s = 0.03;
  double request_bytes_per_s = 1e8;  // of one connection
  double bytes_per_s = 1e12;         // of all
  int most = 1 << 20;

  double seconds(int depth, double bytes) const {
    const double rate = std::min(request_bytes_per_s, bytes_per_s / depth);
    return latency_s + bytes / rate;
  }
};

// The depth after each second.
std::vector<int> run(const Link& link, double bytes, int n_seconds) {
  RequestDepth depth;
  Time now{std::chrono::hours(1)};
  std::priority_queue<Time, std::vector<Time>, std::greater<>> ends;
  std::vector<int> seen;
  const Time begun = now;
  while (std::ssize(seen) < n_seconds) {
    while (std::ssize(ends) < depth.get()) {
      // Not all at one moment, as no server is that even.
      const double jitter = 1 + 0.1 * static_cast<double>(ends.size() % 7) / 7;
      ends.push(now + std::chrono::duration_cast<Time::duration>(
                          duration<double>(jitter * link.seconds(depth.get(), bytes))));
    }
    now = ends.top();
    ends.pop();
    if (std::ssize(ends) >= link.most)
      depth.add_throttled(now);
    else
      depth.add_done(static_cast<std::int64_t>(bytes), true, now);
    while (now - begun >= std::chrono::seconds(std::ssize(seen) + 1)) seen.push_back(depth.get());
  }
  return seen;
}

TEST(RequestDepth, GrowsWhereEachRequestWaits) {
  const Link link{.latency_s = 0.1, .request_bytes_per_s = 1e9};
  EXPECT_EQ(run(link, 1e5, 30).back(), RequestDepth::kMost);
}

TEST(RequestDepth, StaysWhereTheLinkIsFull) {
  const Link link{.latency_s = 0.01, .request_bytes_per_s = 1e9, .bytes_per_s = 1e8};
  for (const int depth : run(link, 4e6, 60)) {
    EXPECT_GE(depth, RequestDepth::kFirst);
    EXPECT_LE(depth, RequestDepth::kFirst * 3 / 2);
  }
}

TEST(RequestDepth, FallsBelowWhatIsRefusedAndStaysWithinItsBounds) {
  const Link link{.latency_s = 0.05, .most = 20};
  const auto depths = run(link, 1e5, 30);
  EXPECT_LT(depths.back(), 40);
  for (const int depth : depths) {
    EXPECT_GE(depth, RequestDepth::kLeast);
    EXPECT_LE(depth, RequestDepth::kMost);
  }
}

TEST(RequestDepth, ManyRefusalsAtOnceHalveItOnce) {
  RequestDepth depth;
  const Time now{std::chrono::hours(1)};
  for (int i = 0; i < 50; ++i) depth.add_throttled(now + milliseconds(i));
  EXPECT_EQ(depth.get(), RequestDepth::kFirst / 2);
  for (int i = 1; i < 20; ++i) depth.add_throttled(now + std::chrono::seconds(i));
  EXPECT_EQ(depth.get(), RequestDepth::kLeast);
}

TEST(RequestDepth, IsNotChangedByRequestsThatNothingWaitedFor) {
  RequestDepth depth;
  Time now{std::chrono::hours(1)};
  for (int i = 0; i < 10'000; ++i, now += milliseconds(5)) depth.add_done(1 << 20, false, now);
  EXPECT_EQ(depth.get(), RequestDepth::kFirst);
}

}  // namespace
}  // namespace cellfeed::cloud
