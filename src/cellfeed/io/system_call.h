// System calls that a signal may interrupt.
#pragma once

#include <cerrno>

namespace cellfeed::io {

// The result of `call`, made again for as long as a signal interrupts it. Not for close(2), which
// has closed the descriptor all the same.
template <typename Call>
auto retry_interrupted(const Call& call) {
  while (true) {
    const auto result = call();
    if (result != -1 || errno != EINTR) return result;
  }
}

}  // namespace cellfeed::io
