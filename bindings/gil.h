// ReleasedGil: other Python threads run while it lives.
#pragma once

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace cellfeed::bindings {

[[noreturn]] inline void sleep_until_the_process_ends() {
  for (;;) ::pause();
}

// As nanobind's gil_scoped_release, but safe in threads that outlive the interpreter: there Python
// ends a thread that wants the GIL back by unwinding it, which no destructor and no caller in C++
// survives. Such a thread sleeps instead, until the process ends.
class ReleasedGil {
 public:
  ReleasedGil() : state_(PyEval_SaveThread()) {}
  ReleasedGil(const ReleasedGil&) = delete;
  ReleasedGil& operator=(const ReleasedGil&) = delete;
  ~ReleasedGil() {
    try {
      PyEval_RestoreThread(state_);
    } catch (abi::__forced_unwind&) {
      sleep_until_the_process_ends();
    }
  }

 private:
  PyThreadState* state_;
};

}  // namespace cellfeed::bindings
