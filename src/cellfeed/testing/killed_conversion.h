// A conversion in a child process that is killed in the middle of its work. Tests only.
#pragma once

#include <signal.h>
#include <unistd.h>

#include <cstdint>
#include <string_view>

#include "cellfeed/convert/shard_conversion.h"
#include "cellfeed/testing/forked_child.h"

namespace cellfeed::testing {

// Killed once it says that so many cells are done, in a phase whose name begins like this, while
// its threads are at whatever they do then. The child's exit code: 100 + SIGKILL.
inline int exit_code_when_killed(convert::ConvertOptions options, std::int64_t n_done,
                                 std::string_view phase = "") {
  return exit_code_in_child([&] {
    options.progress = [&](const convert::Progress& p) {
      if (p.phase.starts_with(phase) && p.done >= n_done) ::kill(::getpid(), SIGKILL);
    };
    convert::convert_to_shards(options);
    return 0;
  });
}

}  // namespace cellfeed::testing
