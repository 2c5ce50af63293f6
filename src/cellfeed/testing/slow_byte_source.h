// SlowByteSource: a double that answers correctly but late, and in small pieces.
// Thread-safe.
#pragma once

#include <algorithm>
#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include "cellfeed/io/byte_source.h"

namespace cellfeed::testing {

struct SlowOptions {
  std::uint64_t seed = 0;
  std::chrono::microseconds max_latency{200};  // each round trip waits between 0 and this
  std::int64_t max_piece = 7;                  // no single read below is longer than this
};

class SlowByteSource final : public io::ByteSource {
 public:
  SlowByteSource(std::shared_ptr<const io::ByteSource> source, const SlowOptions& options = {})
      : source_(std::move(source)), options_(options) {}

  const std::string& path() const override { return source_->path(); }
  bool is_unchanged() const override { return source_->is_unchanged(); }
  std::int64_t size() const override { return source_->size(); }
  std::string_view backend_name() const override { return "slow"; }

  void read(std::int64_t offset, std::span<std::byte> out) const override {
    io::check_range(*this, offset, std::ssize(out));
    std::this_thread::sleep_for(next_latency());
    read_pieces(offset, out);
  }
  // Many at once: all of them wait as long as one.
  void read_many(std::span<const io::ReadRequest> requests) const override {
    io::check_requests(*this, requests);
    if (requests.empty()) return;
    std::this_thread::sleep_for(next_latency());
    for (const io::ReadRequest& request : requests) read_pieces(request.offset, request.out);
  }

  // Calls that waited; those of read_many count once.
  std::int64_t round_trips() const { return n_round_trips_.load(); }

 private:
  void read_pieces(std::int64_t offset, std::span<std::byte> out) const {
    while (!out.empty()) {
      const auto piece = std::min(options_.max_piece, std::int64_t{std::ssize(out)});
      source_->read(offset, out.first(static_cast<std::size_t>(piece)));
      out = out.subspan(static_cast<std::size_t>(piece));
      offset += piece;
    }
  }

  // SplitMix64 of the round trip's number, so that a seed gives the same latencies whatever the
  // threads do.
  std::chrono::microseconds next_latency() const {
    std::uint64_t z =
        options_.seed + 0x9e3779b97f4a7c15u * static_cast<std::uint64_t>(++n_round_trips_);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    const auto bound = static_cast<std::uint64_t>(options_.max_latency.count()) + 1;
    return std::chrono::microseconds((z ^ (z >> 31)) % bound);
  }

  std::shared_ptr<const io::ByteSource> source_;
  SlowOptions options_;
  mutable std::atomic<std::int64_t> n_round_trips_{0};
};

}  // namespace cellfeed::testing
