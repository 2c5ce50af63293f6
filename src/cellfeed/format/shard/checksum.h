// The checksum of everything in a shard directory: XXH3-64 with seed 0.
// Thread-safe, where nothing else is said: no state is shared.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

struct XXH3_state_s;

namespace cellfeed::format::shard {

std::uint64_t checksum_bytes(std::span<const std::byte> bytes);

// The same of bytes that come in parts. Not thread-safe.
class RunningChecksum {
 public:
  RunningChecksum();
  void add(std::span<const std::byte> bytes);
  // Of all bytes added so far.
  std::uint64_t value() const;
  // As if none had been added.
  void reset();

 private:
  struct Free {
    void operator()(XXH3_state_s* state) const;
  };
  std::unique_ptr<XXH3_state_s, Free> state_;
};

}  // namespace cellfeed::format::shard
