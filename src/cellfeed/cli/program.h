// The cellfeed program as a function, so that tests and other programs can call it.
#pragma once

namespace cellfeed::cli {

// Runs one command line and returns its exit code: 0 done, 1 failed, 2 wrong usage, 130 interrupted
// (Ctrl-C). Results go to stdout, progress and errors to stderr. Not thread-safe: handles signals
// of the process while it runs.
int run_program(int argc, char** argv);

}  // namespace cellfeed::cli
