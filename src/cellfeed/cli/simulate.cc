// cellfeed simulate: a large .h5ad made of real cells.
#include "cellfeed/convert/simulate/simulate.h"

#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <memory>
#include <nlohmann/json.hpp>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/number_text.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/verbs.h"

namespace cellfeed::cli {
namespace {

std::string simulation_json(const convert::SimulateResult& r) {
  const nlohmann::ordered_json json = {{"files", r.files},
                                       {"n_cells", r.n_cells},
                                       {"n_genes", r.n_genes},
                                       {"nnz", r.nnz},
                                       {"n_real_cells", r.n_real_cells},
                                       {"has_counts", r.has_counts},
                                       {"left_out", r.left_out_text},
                                       {"bytes", r.bytes},
                                       {"seconds", r.seconds},
                                       {"cells_per_second", r.cells_per_second}};
  return json_line(json);
}

std::string plain_text(const convert::SimulateOptions& options, const convert::SimulateResult& r) {
  std::string text =
      fmt::format("{} cells x {} genes drawn from {} real cells, {} non-zeros, {}: {}\n",
                  grouped(r.n_cells), grouped(r.n_genes), grouped(r.n_real_cells), grouped(r.nnz),
                  format_byte_size(r.bytes), fmt::join(r.files, ", "));
  if (!options.thin)
    text += "cells are copies: nothing was thinned\n";
  else if (r.has_counts)
    text += "counts were thinned binomially, each cell with its own p between 0.7 and 1\n";
  else
    text +=
        "values are not whole numbers: each non-zero was kept with the cell's own p between 0.7 "
        "and 1\n";
  if (!r.left_out_text.empty()) text += r.left_out_text + "\n";
  return text + fmt::format("{} ({} cells/s)\n", duration_text(r.seconds),
                            grouped(static_cast<std::int64_t>(r.cells_per_second)));
}

struct SimulateArguments {
  InputArguments inputs;
  convert::SimulateOptions options;
};

int run_simulate(Session& session, SimulateArguments& arguments) {
  convert::SimulateOptions& options = arguments.options;
  options.input = open_cells(session, arguments.inputs);
  options.stop = session.stop.get_token();
  convert::SimulateResult result;
  {
    ProgressLine line(session.quiet, "cells");
    options.progress = line.callback();
    result = convert::simulate(options);
  }
  print(session.json ? simulation_json(result) : plain_text(options, result));
  return 0;
}

}  // namespace

void add_simulate(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<SimulateArguments>();
  convert::SimulateOptions* options = &arguments->options;
  arguments->inputs.open.make_unique = true;
  CLI::App& verb = *program.add_subcommand("simulate",
                                           "Make a large .h5ad of real cells, drawn with "
                                           "replacement and thinned; obs column source_cell says "
                                           "which row of the real file a cell is from");
  verb.add_option("--like", arguments->inputs.open.paths,
                  "The real cells: files, globs or shard directories")
      ->allow_extra_args(false)
      ->required()
      ->type_name("INPUT");
  verb.add_option("--cells", options->n_cells, "Cells to make")
      ->required()
      ->check(whole_number(1))
      ->type_name("N");
  verb.add_option("--output", options->output, "The .h5ad file to write")
      ->required()
      ->type_name("FILE");
  verb.add_option("--files", options->n_files,
                  "Split over K files: atlas_0.h5ad, atlas_1.h5ad, ... [default: 1]")
      ->check(whole_number(1))
      ->type_name("K");
  add_seed_option(verb, options->seed, "The same seed gives the same cells");
  verb.add_option("--order", options->order,
                  "random; source: copies of a cell side by side; or an obs column: runs of one "
                  "label, as in an atlas "
                  "[default: random]")
      ->type_name("ORDER");
  verb.add_flag("!--no-thin", options->thin, "Copy cells as they are");
  verb.add_flag("--overwrite", options->overwrite, "Replace files that are there");
  add_compression_option(verb, options->compression);
  add_input_options(verb, arguments->inputs);
  add_join_option(verb, arguments->inputs.open.join);
  add_resource_options(verb, options->threads, options->memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_simulate(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
