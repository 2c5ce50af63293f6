// PackedWork: what goes on behind the batches of packed caches, so that a process can end without
// threads of ours under way. Thread-safe, fork-safe: a forked child has none of it.
#pragma once

#include <chrono>
#include <optional>
#include <stop_token>

#include "cellfeed/exec/stop_scope.h"

namespace cellfeed::convert {

// A thread that works takes part from construction to destruction. Where the process is ending, it
// is stopped as it begins.
class PackedWork {
 public:
  explicit PackedWork(std::stop_source stop);
  ~PackedWork();
  PackedWork(const PackedWork&) = delete;
  PackedWork& operator=(const PackedWork&) = delete;

  // While it lives, the thread of the work may ask a server. Where the process ends meanwhile and
  // the answer takes some seconds more, that is given up (kCancelled).
  class Question {
   public:
    explicit Question(PackedWork& work);
    ~Question();
    Question(const Question&) = delete;
    Question& operator=(const Question&) = delete;

   private:
    PackedWork& work_;
    const exec::StopScope scope_;
  };

  struct Registry;

 private:
  using Clock = std::chrono::steady_clock;
  friend void end_packed_work();
  static Registry& registry();

  std::stop_source stop_, give_up_;
  std::optional<Clock::time_point> asked_;  // of a question that is not answered
};

// At the end of the process: rows that were kept are written, unless a server must be asked first
// that does not answer within some seconds; shards under way are given up.
void end_packed_work();

}  // namespace cellfeed::convert
