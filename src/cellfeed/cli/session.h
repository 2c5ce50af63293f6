// Session: what all verbs of one run of the program share.
#pragma once

#include <functional>
#include <stop_token>
#include <string>

namespace cellfeed::cli {

struct Session {
  bool json = false;         // results for machines on stdout
  bool quiet = false;        // no progress
  std::stop_source stop;     // requested by Ctrl-C
  std::function<int()> run;  // set by the verb that was chosen; returns the exit code
};

// Prints to stdout. Throws kIo when the reader of a pipe has gone.
void print(const std::string& text);

}  // namespace cellfeed::cli
