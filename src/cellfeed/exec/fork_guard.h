// fork_guard: tells an object that the process it lives in is a fork of the one that made it.
// Thread-safe.
#pragma once

#include <cstdint>

namespace cellfeed::exec {

// Grows by one in each forked child, before any of its code runs. An object whose threads, rings or
// locks belong to another generation must neither join, close nor lock them: they exist in the
// parent only.
std::uint64_t fork_generation();

}  // namespace cellfeed::exec
