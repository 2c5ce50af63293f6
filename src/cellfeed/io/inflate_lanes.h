// Zlib streams inflated two at a time on one thread, their symbols in turn: the decoder waits for
// table look-ups most of the time, and one stream's wait is the other's work. Thread-safe.
#pragma once

#include <cstddef>
#include <span>

namespace cellfeed::io {

struct ZlibJob {
  std::span<const std::byte> in;
  std::span<std::byte> out;
  bool is_done = false;
};

// Sets is_done for each stream that was inflated to exactly out.size() bytes with the right
// checksum. The rest, sound or not, is left to another inflater: streams of an unusual make, and
// all where this machine lacks the instructions (x86-64 with AVX2 and BMI2). Never reads or writes
// outside in and out.
void inflate_in_lanes(std::span<ZlibJob> jobs);

}  // namespace cellfeed::io
