// cellfeed shard: files -> a directory of shards.
#include <CLI/CLI.hpp>
#include <optional>

#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/config_file.h"
#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/preprocess.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/shared_run.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/convert/result_text.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::cli {
namespace {

struct ShardArguments {
  InputArguments inputs;
  convert::ConvertOptions convert;
  std::string scheduler;
  bool has_budget = false;
  std::string config;
  std::optional<convert::ProcessingOptions> processing;  // of the configuration
  std::string gene_order = "source", layout = "packed";
  bool resume = false, overwrite = false;
};

// What the settings of a file say of a conversion.
void follow_shard_config(const Session& session, ShardArguments& arguments) {
  std::vector<std::string>& paths = arguments.inputs.open.paths;
  const config::Config settings = read_config(arguments.config);
  if (paths.empty()) paths = settings.data_paths("to shard");
  keep_copies(settings, paths);
  if (settings.is_given("data.preprocessing")) {
    const convert::ProcessingOptions processing = processing_of(settings);
    if (processing.changes_values() || processing.n_top_genes > 0)
      arguments.processing = processing;
  }
  arguments.inputs.open.genes =
      vocabulary_of(session, settings, arguments.inputs, arguments.convert);
}

int run_shard(Session& session, ShardArguments& arguments) {
  convert::ConvertOptions& options = arguments.convert;
  if (arguments.gene_order == "mean") options.gene_order = format::shard::GeneOrder::kMean;
  if (arguments.layout == "dense") options.layout = format::shard::Layout::kDense;
  if (arguments.resume) options.existing = convert::ExistingTarget::kResume;
  if (arguments.overwrite) options.existing = convert::ExistingTarget::kOverwrite;
  options.stop = session.stop.get_token();
  if (!arguments.config.empty()) follow_shard_config(session, arguments);
  if (!arguments.scheduler.empty())
    return run_on_workers(session, {arguments.scheduler, arguments.has_budget}, arguments.inputs,
                          {.convert = options, .processing = arguments.processing});
  options.input = open_cells(session, arguments.inputs);
  if (arguments.processing)
    return run_preprocess(session, {.processing = *arguments.processing, .convert = options});
  convert::ConvertResult result;
  {
    ProgressLine line(session.quiet, "cells");
    options.progress = line.callback();
    result = convert::convert_to_shards(options);
  }
  print(session.json ? convert::result_json(options.output_dir, result)
                     : convert::result_text(options.output_dir, result));
  return 0;
}

}  // namespace

void add_shard(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<ShardArguments>();
  convert::ConvertOptions& options = arguments->convert;
  CLI::App& verb =
      *program.add_subcommand("shard", "Convert files to a directory of shards that train fast");
  verb.add_option("inputs", arguments->inputs.open.paths,
                  "Files (.h5ad), globs or shard directories, in the order of the cells")
      ->type_name("INPUT");
  add_config_option(
      verb, arguments->config,
      "Settings: data.paths where no INPUT is given, data.vocab and data.preprocessing");
  verb.add_option("--output-dir", options.output_dir, "Directory to write; must be new or empty")
      ->required()
      ->type_name("DIR");
  verb.add_option("--shard-size", options.shard_size, "Cells of a shard [default: 100000]")
      ->check(whole_number(1, std::int64_t{1} << 40))
      ->type_name("CELLS");
  verb.add_option("--gene-order", arguments->gene_order,
                  "source: column j stays column j; mean: by falling mean, 20-25 % smaller, reads "
                  "the input twice "
                  "[default: source]")
      ->check(one_of({"source", "mean"}))
      ->type_name("ORDER");
  verb.add_option(
          "--layout", arguments->layout,
          "packed: bit-packed sparse records; dense: float32 .npy, much larger [default: packed]")
      ->check(one_of({"packed", "dense"}))
      ->type_name("LAYOUT");
  add_input_options(verb, arguments->inputs);
  add_join_option(verb, arguments->inputs.open.join);
  add_matrix_options(verb, arguments->inputs);
  verb.add_flag("--shuffle", options.shuffle,
                "Write the cells of all inputs in one random order, in two passes; needs the space "
                "of the shards once more while it runs");
  add_seed_option(verb, options.seed, "Of the shuffle: the same seed, the same order")
      ->needs("--shuffle");
  verb.add_flag("--resume", arguments->resume, "Continue a conversion that was interrupted");
  verb.add_flag("--overwrite", arguments->overwrite,
                "Replace shards that are there; other files are never touched")
      ->excludes("--resume");
  add_obs_options(verb, options.obs);
  add_scheduler_option(verb, arguments->scheduler);
  add_resource_options(verb, options.threads, options.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, &verb, arguments] {
    arguments->has_budget = verb.count("--memory-budget") > 0;
    if (arguments->inputs.open.paths.empty() && arguments->config.empty())
      throw CLI::ValidationError("INPUT is required, or a configuration with --config");
    session.run = [&session, arguments] { return run_shard(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
