// ForkSafeMutex: a lock that a forked child finds free. For locks that outlive a call, such as
// those of caches: a thread that held one at the fork does not exist in the child, which would wait
// for ever. fork() waits until nobody holds any of them, and whoever wants one waits until fork()
// is done.
//
// REQUIRES: a holder waits for nothing but other ForkSafeMutexes and the system: not for another
// thread's work, not for a Python interpreter. Locks that are waited on with a condition, or whose
// threads end with a fork, belong in an exec::PerProcess instead. Thread-safe.
#pragma once

#include <mutex>

namespace cellfeed {

// While one exists, fork() of any other thread waits. For steps of a library that a child must not
// find half done. REQUIRES: as of the holder of a lock, above.
class ForkHold {
 public:
  ForkHold();
  ~ForkHold();
  ForkHold(const ForkHold&) = delete;
  ForkHold& operator=(const ForkHold&) = delete;
};

class ForkSafeMutex {
 public:
  ForkSafeMutex() = default;
  ForkSafeMutex(const ForkSafeMutex&) = delete;
  ForkSafeMutex& operator=(const ForkSafeMutex&) = delete;

  void lock();
  void unlock();

 private:
  std::mutex mutex_;
};

}  // namespace cellfeed
