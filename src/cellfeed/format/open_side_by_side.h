// Many stores opened at once.
#pragma once

#include <cstdint>
#include <functional>

namespace cellfeed::format {

// Calls open(i) once for each i in [0, n), on several threads: as many as the machine has for local
// files, more for remote ones, each of which waits for its round trips. The error thrown is that of
// the lowest i, whatever the threads.
void open_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& open);

// The same for what takes no time but the waiting: local files one after another, on this thread.
void wait_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& wait);

// The same for what rarely waits, as what it reads is kept: one after another as long as none has
// waited, and then those that are left side by side.
void step_side_by_side(std::int64_t n, bool is_local,
                       const std::function<void(std::int64_t)>& step);

}  // namespace cellfeed::format
