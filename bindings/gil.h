// The GIL, in threads that may outlive the interpreter: there Python ends a thread that wants the
// GIL by unwinding it, which no destructor and no caller in C++ survives (nanobind's functions are
// noexcept). Such a thread sleeps instead, until the process ends. nanobind's own scopes do not.
#pragma once

#include <nanobind/nanobind.h>
#include <unistd.h>

#include <exception>
#include <type_traits>

namespace cellfeed::bindings {

[[noreturn]] inline void sleep_until_the_process_ends() {
  for (;;) ::pause();
}

// Returns work(), which calls Python and throws std::exception only. Also in handlers of
// exceptions, where nothing may catch what Python unwinds with: so a destructor stops it, in a
// frame of its own, as those within a noexcept function need not be run.
template <typename Work>
[[gnu::noinline]] decltype(auto) call_python(Work work) {
  struct Caller {
    bool is_back = false;
    ~Caller() {
      if (!is_back) sleep_until_the_process_ends();
    }
  } caller;
  try {
    if constexpr (std::is_void_v<decltype(work())>) {
      work();
      caller.is_back = true;
    } else {
      decltype(auto) result = work();
      caller.is_back = true;
      return result;
    }
  } catch (const std::exception&) {
    caller.is_back = true;
    throw;
  }
}

// Other Python threads run while it lives.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    call_python([this] { PyEval_RestoreThread(state_); });
  }

 private:
  PyThreadState* state_;
};

// A thread of our own may call Python while it lives.
class HeldGil {
 public:
  HeldGil() : state_(call_python(PyGILState_Ensure)) {}
  HeldGil(const HeldGil&) = delete;
  HeldGil& operator=(const HeldGil&) = delete;
  ~HeldGil() { PyGILState_Release(state_); }

 private:
  PyGILState_STATE state_;
};

}  // namespace cellfeed::bindings
