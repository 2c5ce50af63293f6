// MapGuard: a memory map that outlives the loss of what it maps. Where a mapped file is shortened,
// or its disk fails, the system sends SIGBUS to whoever reads there, and that ends the process.
// Under a guard the rest of the map turns to zeros instead, and the guard says so: whoever read
// asks has_lost_pages() before the values go anywhere. Costs nothing until then. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

namespace cellfeed::exec {

struct GuardedMap;

class MapGuard {
 public:
  // Lifetime: the map outlives the guard. REQUIRES: read only, and whole pages of the process.
  explicit MapGuard(std::span<const std::byte> map);
  ~MapGuard();
  MapGuard(const MapGuard&) = delete;
  MapGuard& operator=(const MapGuard&) = delete;

  // True for good once bytes could not be read.
  bool has_lost_pages() const;

 private:
  GuardedMap* map_;
};

// Takes SIGBUS again from whoever took it since the last guard was made, such as Python's
// faulthandler or a worker of torch's DataLoader; what is no map of ours is passed on to them.
void take_lost_page_signals();

}  // namespace cellfeed::exec
