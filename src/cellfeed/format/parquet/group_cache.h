// GroupCache: decoded row groups of one file. Two threads that need one group decode it once.
// Thread-safe. A forked child starts with an empty one.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <utility>

#include "cellfeed/chunked/chunk_cache.h"
#include "cellfeed/exec/fork_guard.h"

namespace cellfeed::format::parquet_table {

class GroupCache {
 public:
  using Group = std::shared_ptr<const chunked::InflatedChunk>;

  // all_bytes: the memory of all groups. keeps_last: the last groups are kept until release(),
  // whatever fits in cache_bytes.
  GroupCache(std::int64_t cache_bytes, std::int64_t all_bytes, bool keeps_last)
      : chunks_(cache_bytes, all_bytes), keeps_last_(keeps_last) {}

  // Null where nobody has it.
  Group find(int number) const;
  // The group, decoded now where nobody has it; waits while another thread decodes it. Rethrows
  // what decode throws. Whoever holds on to it does so for no longer than a copy takes.
  Group get(int number, std::int64_t n_bytes,
            const std::function<void(std::span<std::byte>)>& decode) const;
  void release() const;
  void set_capacity(std::int64_t bytes) const { chunks_.set_capacity(bytes); }

 private:
  // By one thread, for all that wait for it.
  struct Decoding {
    bool is_over = false;
    Group group;  // null where it failed
  };
  struct State {
    std::mutex mutex;
    std::condition_variable_any decoded;
    // State below is protected by mutex.
    std::map<int, std::shared_ptr<Decoding>> decoding;
    std::deque<std::pair<int, Group>> last;
  };
  // group: null where decoding failed.
  void end(State& state, int number, Decoding& own, const Group& group) const;
  // REQUIRES: the lock.
  Group find_in(State& state, int number) const;

  const chunked::ChunkCache chunks_;
  const bool keeps_last_;
  mutable exec::PerProcess<State> state_;
};

}  // namespace cellfeed::format::parquet_table
