// What preprocess and shard --config share.
#pragma once

#include "cellfeed/cli/session.h"
#include "cellfeed/convert/preprocess/preprocess.h"

namespace cellfeed::cli {

// Runs it with progress and prints the result; returns the exit code.
int run_preprocess(Session& session, convert::PreprocessOptions options);

}  // namespace cellfeed::cli
