// The program in this process: its exit code and what it prints.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cellfeed/cli/program.h"

namespace cellfeed::testing {

struct Outcome {
  int code = -1;
  std::string out, err;
};

inline Outcome run(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), "cellfeed");
  std::vector<char*> argv;
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  ::testing::internal::CaptureStdout();
  ::testing::internal::CaptureStderr();
  Outcome outcome;
  outcome.code = cli::run_program(static_cast<int>(argv.size()) - 1, argv.data());
  outcome.out = ::testing::internal::GetCapturedStdout();
  outcome.err = ::testing::internal::GetCapturedStderr();
  return outcome;
}

}  // namespace cellfeed::testing
