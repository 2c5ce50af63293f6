// InflatedArray: one compressed array of a file, inflated chunk by chunk as rows need it and kept
// whole, in its own pages, until it is destroyed. Thread-safe. Not fork-safe: a chunk that a thread
// of the parent was inflating never gets ready in a child, which needs one of its own.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cellfeed/matrix/buffer.h"

namespace cellfeed::chunked {

class InflatedArray {
 public:
  InflatedArray(std::int64_t n_chunks, std::int64_t chunk_bytes);

  bool has(std::int64_t chunk) const {
    return states_[chunk].load(std::memory_order_acquire) == kReady;
  }
  // Has `inflate` write the chunk, unless it is there; waits while another thread does. False where
  // it was there. Rethrows what inflate throws; the chunk is then as it was before.
  bool fill(std::int64_t chunk, const std::function<void(std::span<std::byte>)>& inflate);
  // The elements in one piece, chunk after chunk; what is not there has any value.
  const std::byte* bytes() const { return bytes_.data(); }

 private:
  enum State : std::uint8_t { kEmpty, kFilling, kReady };

  const std::size_t chunk_bytes_;
  std::unique_ptr<std::atomic<std::uint8_t>[]> states_;
  matrix::Buffer<std::byte> bytes_;
};

}  // namespace cellfeed::chunked
