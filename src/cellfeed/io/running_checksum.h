// RunningChecksum: the XXH3-64, with seed 0, of bytes that come in parts. Not thread-safe.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "cellfeed/io/byte_source.h"

struct XXH3_state_s;

namespace cellfeed::io {

class RunningChecksum {
 public:
  RunningChecksum();
  void add(std::span<const std::byte> bytes);
  // All of a source, a part at a time: 4 MiB of memory. progress gets bytes done and bytes.
  void add(const ByteSource& source,
           const std::function<void(std::int64_t, std::int64_t)>& progress = {});
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

}  // namespace cellfeed::io
