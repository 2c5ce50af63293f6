// Calls that may wait for a server: other threads of Python run meanwhile, and Ctrl-C ends them.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "cellfeed/io/file_system.h"
#include "gil.h"
#include "watched_work.h"

namespace cellfeed::bindings {

inline bool are_remote(const std::vector<std::string>& paths) {
  return !std::ranges::all_of(paths, io::is_local);
}

// Returns work(), without the GIL. is_remote: it may wait for a server, and Ctrl-C ends that; it
// then runs on a thread of its own, which a call of some microseconds would feel.
template <typename Work>
std::invoke_result_t<Work&> call_released(bool is_remote, Work work) {
  using Result = std::invoke_result_t<Work&>;
  if (!is_remote) {
    const ReleasedGil released;
    return work();
  }
  if constexpr (std::is_void_v<Result>) {
    run_watched(nanobind::none(), [&work](auto&&...) {
      work();
      return true;
    });
  } else {
    return run_watched(nanobind::none(), [&work](auto&&...) { return work(); });
  }
}

}  // namespace cellfeed::bindings
