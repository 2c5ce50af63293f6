// The cells that a verb writes elsewhere: options that say how files are opened, and opening them.
#pragma once

#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "cellfeed/cli/options.h"
#include "cellfeed/cli/session.h"
#include "cellfeed/convert/inputs/input_cells.h"

namespace cellfeed::cli {

struct InputArguments {
  convert::InputOptions open;
  // Where rows of inputs that are not stored by rows are kept; "": nothing of them stays.
  CacheArguments cache;
};

// --filter, --layer, --var-key, --make-unique, --cache-dir, and those of add_choice_options.
void add_input_options(CLI::App& verb, InputArguments& arguments);
// --layers and --obsm.
void add_matrix_options(CLI::App& verb, InputArguments& arguments);
enum class MissingGenes { kWarn, kAreOfResult };
// Prints on stderr what is left out of the files, also when quiet, which is about progress.
convert::InputCells open_cells(const Session& session, const InputArguments& arguments,
                               MissingGenes missing = MissingGenes::kWarn);
// The same for another process: keyword arguments of Python's cellfeed.open, and "filter".
nlohmann::json json_of(const InputArguments& arguments);

}  // namespace cellfeed::cli
