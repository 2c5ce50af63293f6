// PackedWork: what goes on behind the batches of packed caches, so that a process can end without
// threads of ours under way. Thread-safe, fork-safe: a forked child has none of it.
#pragma once

#include <stop_token>

namespace cellfeed::convert {

// A thread that works takes part from construction to destruction. Where the process is ending, it
// is stopped as it begins.
class PackedWork {
 public:
  explicit PackedWork(std::stop_source stop);
  ~PackedWork();
  PackedWork(const PackedWork&) = delete;
  PackedWork& operator=(const PackedWork&) = delete;

  // Requested where the process ends and the work takes long to: what waits for a server is given
  // up.
  std::stop_token given_up() const { return give_up_.get_token(); }

  struct Registry;

 private:
  friend void end_packed_work();
  static Registry& registry();

  std::stop_source stop_, give_up_;
};

// At the end of the process: rows that were kept are written, unless a server must be asked first
// that does not answer within some seconds; shards under way are given up.
void end_packed_work();

}  // namespace cellfeed::convert
