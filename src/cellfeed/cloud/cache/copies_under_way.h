// Copies of objects that threads of this process make, for those who show how far they are.
// Thread-safe.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace cellfeed::cloud {

struct CopyProgress {
  std::string of_object;
  std::int64_t done = 0;  // bytes, those of an earlier process included
  std::int64_t total = 0;
  double rate = 0;  // bytes per second, by this process
};

// In the order in which they began.
std::vector<CopyProgress> copies_under_way();
// Is told of all of them whenever one grows, by the thread that makes it, never by two at a time.
// It must not throw, nor ask for copies. An empty function: nobody is told.
void observe_copies(std::function<void(const std::vector<CopyProgress>&)> observer);

// One of them, for as long as it lives.
class CopyUnderWay {
 public:
  // done: what an earlier process had copied.
  CopyUnderWay(std::string of_object, std::int64_t done, std::int64_t total);
  ~CopyUnderWay();
  CopyUnderWay(const CopyUnderWay&) = delete;
  CopyUnderWay& operator=(const CopyUnderWay&) = delete;

  void note(std::int64_t done) const;

 private:
  std::uint64_t number_;
  std::int64_t done_before_;
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace cellfeed::cloud
