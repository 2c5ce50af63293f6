// Weighted draws without replacement: exponential keys, and the rounds of an epoch kept while they
// are in use.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/sampling/random.h"

namespace cellfeed::sampling {

// `count` of n samples in the order of sequential draws with p proportional to weight, without
// replacement: those of the smallest key -log(u_i) / w_i, smallest first. u_i = (bits(i, round) >>
// 11 + 1/2) / 2^53. Weight zero is never drawn. Source: Efraimidis and Spirakis, "Weighted random
// sampling with a reservoir", 2006. O(n) time and memory. REQUIRES: count samples have a positive
// weight.
std::vector<std::int64_t> draw_without_replacement(
    const RandomStream& stream, std::uint64_t round, std::int64_t n, std::int64_t count,
    const std::function<double(std::int64_t)>& weight);

struct RoundKey {
  std::uint64_t seed;
  std::uint64_t epoch;
  std::uint64_t round;
  bool operator==(const RoundKey&) const = default;
};

// Drawn rounds of a strategy: rows in the order of the round. Thread-safe: a round is made once, by
// the first thread that asks, while others wait.
class RoundCache {
 public:
  using Round = std::shared_ptr<const std::vector<std::int64_t>>;
  // Keeps at least `capacity` rounds, the ones used last.
  Round get(const RoundKey& key, std::int64_t capacity,
            const std::function<std::vector<std::int64_t>()>& make);

 private:
  struct Entry {
    RoundKey key;
    Round rows;
  };
  ForkSafeMutex mutex_;         // guards entries_
  std::vector<Entry> entries_;  // most recently used first
};

}  // namespace cellfeed::sampling
