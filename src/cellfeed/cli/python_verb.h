// Verbs, or parts of them, that run in Python.
#pragma once

#include <string>
#include <vector>

#include "cellfeed/cli/session.h"

namespace cellfeed::cli {

// Replaces this process, so that signals and exit codes are Python's.
int run_python(const Session& session, std::vector<std::string> arguments);

}  // namespace cellfeed::cli
