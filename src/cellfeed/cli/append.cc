// cellfeed append: cells of more files behind those of finished shards.
#include "cellfeed/convert/append/append.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/convert/result_text.h"

namespace cellfeed::cli {
namespace {

struct AppendArguments {
  InputArguments inputs;
  convert::AppendOptions options;
  std::string extra_genes = "error", missing_genes = "warn";
};

convert::InputCells open_cells_to_append(const Session& session, AppendArguments& arguments) {
  convert::InputOptions& open = arguments.inputs.open;
  convert::MatricesOfShards there =
      convert::matrices_to_append(arguments.options.convert.output_dir, open.layer);
  open.layer = std::move(there.layer);
  open.layers = std::move(there.layers);
  open.obsm = std::move(there.obsm);
  open.genes = std::move(there.genes);
  return open_cells(session, arguments.inputs, MissingGenes::kAreOfResult);
}

int run_append_to_shards(Session& session, AppendArguments& arguments) {
  convert::AppendOptions& options = arguments.options;
  if (arguments.extra_genes == "drop") options.extra_genes = convert::ExtraGenes::kDrop;
  options.refuse_missing_genes = arguments.missing_genes == "error";
  options.convert.stop = session.stop.get_token();
  options.convert.input = open_cells_to_append(session, arguments);
  convert::AppendResult result;
  {
    ProgressLine line(session.quiet, "cells");
    options.convert.progress = line.callback();
    result = convert::append_to_shards(options);
  }
  if (arguments.missing_genes == "zero") result.missing_genes_text.clear();
  const std::string& dir = options.convert.output_dir;
  print(session.json ? convert::result_json(dir, result) : convert::result_text(dir, result));
  return 0;
}

void add_gene_options(CLI::App& verb, AppendArguments& arguments) {
  verb.add_option("--extra-genes", arguments.extra_genes,
                  "error: a source with genes that the shards lack is refused; drop: these are "
                  "left out, and each cell keeps its total over all genes [default: error]")
      ->check(one_of({"error", "drop"}))
      ->type_name("WHAT");
  verb.add_option("--missing-genes", arguments.missing_genes,
                  "Genes of the shards that a source lacks are zeros there: warn says so, zero "
                  "does not, error refuses the source [default: warn]")
      ->check(one_of({"warn", "zero", "error"}))
      ->type_name("WHAT");
}

}  // namespace

void add_append(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<AppendArguments>();
  convert::AppendOptions& options = arguments->options;
  convert::ConvertOptions& convert = options.convert;
  arguments->inputs.open.layer.clear();
  convert.shard_size = 0;
  CLI::App& verb = *program.add_subcommand(
      "append", "Add the cells of more files behind those of a directory of shards");
  verb.add_option("inputs", arguments->inputs.open.paths,
                  "Files (.h5ad), globs or shard directories, in the order of the cells")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--to", convert.output_dir, "The shards; what is there is not written again")
      ->required()
      ->type_name("DIR");
  verb.add_option("--shard-size", convert.shard_size,
                  "Cells of a new shard [default: as those that are there]")
      ->check(whole_number(1, std::int64_t{1} << 40))
      ->type_name("CELLS");
  add_input_options(verb, arguments->inputs);
  add_gene_options(verb, *arguments);
  verb.add_flag("--shuffle", convert.shuffle,
                "Write the new cells in one random order; those that are there stay before them");
  add_seed_option(verb, convert.seed, "Of the shuffle: the same seed, the same order")
      ->needs("--shuffle");
  verb.add_flag("--resume", options.resumes, "Continue an append that was interrupted");
  verb.add_flag("--force", options.is_forced,
                "Also append sources whose cells are in the shards already, or whose values are of "
                "another kind");
  add_obs_options(verb, convert.obs);
  add_resource_options(verb, convert.threads, convert.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_append_to_shards(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
