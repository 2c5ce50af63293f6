// The cellfeed program.
#include <unistd.h>

#include <cstdio>

#include "cellfeed/cli/program.h"

int main(int argc, char** argv) {
  const int code = cellfeed::cli::run_program(argc, argv);
  std::fflush(nullptr);
  // All is written and said. What libraries tear down at exit asks for memory that may be what was
  // missing.
  ::_exit(code);
}
