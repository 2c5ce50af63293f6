// cellfeed export: shards -> .h5ad.
#include "cellfeed/convert/export.h"

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

struct ExportArguments {
  InputArguments inputs;
  convert::ExportOptions options;
  std::string gene_order = "source";
};

int run_export(Session& session, ExportArguments& arguments) {
  convert::ExportOptions& options = arguments.options;
  options.keep_stored_gene_order = arguments.gene_order == "stored";
  convert::InputOptions& open = arguments.inputs.open;
  if (open.layers.empty() && open.obsm.empty() && open.layer == "X")
    for (const std::string& name : convert::matrices_of_shards(open.paths))
      (format::is_obsm(name) ? open.obsm : open.layers).push_back(name);
  options.input = open_cells(session, arguments.inputs);
  options.stop = session.stop.get_token();
  convert::ExportResult result;
  {
    ProgressLine line(session.quiet, "cells");
    options.progress = line.callback();
    result = convert::export_h5ad(options);
  }
  if (session.json) {
    const nlohmann::ordered_json json = {
        {"output", options.output},         {"n_cells", result.n_cells},
        {"n_genes", result.n_genes},        {"nnz", result.nnz},
        {"left_out", result.left_out_text}, {"bytes", result.bytes},
        {"seconds", result.seconds},        {"cells_per_second", result.cells_per_second}};
    print(json_line(json));
  } else {
    const std::string left_out = result.left_out_text.empty() ? "" : result.left_out_text + "\n";
    print(fmt::format("{} cells x {} genes, {}: {}\n{}{} ({} cells/s)\n", grouped(result.n_cells),
                      grouped(result.n_genes), format_byte_size(result.bytes), options.output,
                      left_out, duration_text(result.seconds),
                      grouped(static_cast<std::int64_t>(result.cells_per_second))));
  }
  return 0;
}

}  // namespace

void add_export(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<ExportArguments>();
  convert::ExportOptions& options = arguments->options;
  CLI::App& verb = *program.add_subcommand(
      "export", "Write shards back to one .h5ad file, equal to what they were made from");
  verb.add_option("inputs", arguments->inputs.open.paths, "Shard directories, files or globs")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--output", options.output, "The .h5ad file to write")
      ->required()
      ->type_name("FILE");
  verb.add_option(
          "--gene-order", arguments->gene_order,
          "source: as in the file that was sharded; stored: as in the shards [default: source]")
      ->check(one_of({"source", "stored"}))
      ->type_name("ORDER");
  add_input_options(verb, arguments->inputs);
  add_join_option(verb, arguments->inputs.open.join);
  add_matrix_options(verb, arguments->inputs);
  verb.add_flag("--keep-source-columns", options.keep_source_columns,
                "Add the obs columns that say which file and row a cell is from");
  verb.add_flag("--overwrite", options.overwrite, "Replace the file when it is there");
  add_compression_option(verb, options.compression);
  add_obs_options(verb, options.obs);
  add_resource_options(verb, options.threads, options.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_export(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
