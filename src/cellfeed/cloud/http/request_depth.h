// RequestDepth: how many requests to have under way, found by trying: more while more bytes come of
// it, half as many where the server asks for less. Pure: time is given. Not thread-safe.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>

namespace cellfeed::cloud {

class RequestDepth {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr int kFirst = 64;
  static constexpr int kLeast = 4;
  static constexpr int kMost = 256;

  int get() const { return depth_; }

  // A request has ended. is_limiting: others waited for their turn.
  void add_done(std::int64_t bytes, bool is_limiting, Time now) {
    if (!is_limiting || begun_ == Time{}) {
      begin_interval(now);
      return;
    }
    bytes_ += bytes;
    if (++n_done_ < 2 * depth_ || now - begun_ < kInterval) return;
    const double rate =
        static_cast<double>(bytes_) / std::chrono::duration<double>(now - begun_).count();
    step(rate);
    begin_interval(now);
  }

  void add_throttled(Time now) {
    if (now - throttled_ < kInterval) return;
    throttled_ = now;
    depth_ = std::max(kLeast, depth_ / 2);
    hold_ = kHold;
    begin_interval(now);
  }

 private:
  static constexpr std::chrono::milliseconds kInterval{200};
  static constexpr int kHold = 20;  // intervals between two trials
  static constexpr double kWorth = 1.1;

  void begin_interval(Time now) {
    begun_ = now;
    bytes_ = n_done_ = 0;
  }
  void step(double rate) {
    if (hold_ > 0) {
      --hold_;
      rate_ = rate;
      return;
    }
    if (before_ > 0 && rate < kWorth * rate_) {  // the last step was not worth it
      depth_ = before_;
      before_ = 0;
      hold_ = kHold;
      return;
    }
    rate_ = rate;
    before_ = depth_;
    depth_ = std::min(kMost, depth_ + depth_ / 2);
    if (depth_ == before_) {
      before_ = 0;
      hold_ = kHold;
    }
  }

  int depth_ = kFirst;
  int before_ = 0;  // the depth before a trial; 0: none is under way
  int hold_ = 0;
  double rate_ = 0;
  Time begun_{};
  Time throttled_{};
  std::int64_t bytes_ = 0;
  std::int64_t n_done_ = 0;
};

}  // namespace cellfeed::cloud
