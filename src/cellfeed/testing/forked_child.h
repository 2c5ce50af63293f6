// A body in a forked child, for tests of what a fork leaves behind. Tests only.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <exception>
#include <functional>

namespace cellfeed::testing {

// Which sanitizer the program was compiled with. ThreadSanitizer ends a forked child that starts a
// thread; the allocator of either may be locked by another thread at the fork.
#if defined(__SANITIZE_THREAD__)
inline constexpr bool kThreadSanitizer = true;
#else
inline constexpr bool kThreadSanitizer = false;
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
inline constexpr bool kSanitizer = true;
#else
inline constexpr bool kSanitizer = false;
#endif

// The child's exit code: what body() returns, 2 when it throws, 100 + the signal that ended it. A
// child that hangs is killed after 60 s.
inline int exit_code_in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    ::alarm(60);
    try {
      ::_exit(body());
    } catch (const std::exception& error) {
      std::fprintf(stderr, "the child threw: %s\n", error.what());
      ::_exit(2);
    }
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 100 + WTERMSIG(status);
}

// 0 when body() returns true, 1 when it does not, else as above.
inline int run_in_child(const std::function<bool()>& body) {
  return exit_code_in_child([&] { return body() ? 0 : 1; });
}

}  // namespace cellfeed::testing
