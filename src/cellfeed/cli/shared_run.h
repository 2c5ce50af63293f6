// --scheduler: shards that the workers of a Dask cluster write; Python talks to them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>

#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/session.h"
#include "cellfeed/convert/shared_options.h"

namespace cellfeed::cli {

// --scheduler; empty where it is not given.
void add_scheduler_option(CLI::App& verb, std::string& scheduler);
struct WorkerArguments {
  std::string scheduler;
  bool has_budget = false;  // else each worker takes what it has
};
// Replaces this process by Python, which does what the options say.
int run_on_workers(const Session& session, const WorkerArguments& workers,
                   const InputArguments& inputs, const convert::SharedOptions& options);

}  // namespace cellfeed::cli
