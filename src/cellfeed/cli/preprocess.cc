// cellfeed preprocess: raw counts -> normalised, log-transformed, filtered cells.
#include "cellfeed/cli/preprocess.h"

#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/config_file.h"
#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/shared_run.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/convert/result_text.h"

namespace cellfeed::cli {
namespace {

struct PreprocessArguments {
  InputArguments inputs;
  convert::PreprocessOptions options;
  std::string scheduler;
  bool has_budget = false;
  std::string config, flavor;
  bool skips_normalize = false, skips_log = false, resume = false, overwrite = false;
  std::optional<double> target_sum;
  std::optional<std::int64_t> n_top_genes;
};

// Options of the command line come before those of the file.
void follow_preprocess_config(const Session& session, PreprocessArguments& arguments) {
  std::vector<std::string>& paths = arguments.inputs.open.paths;
  const config::Config settings = read_config(arguments.config);
  if (paths.empty()) paths = settings.data_paths("to preprocess");
  keep_copies(settings, paths);
  arguments.inputs.open.genes =
      vocabulary_of(session, settings, arguments.inputs, arguments.options.convert);
  if (!settings.is_given("data.preprocessing")) return;
  const convert::ProcessingOptions given = processing_of(settings);
  convert::ProcessingOptions& processing = arguments.options.processing;
  processing.normalize = given.normalize;
  processing.target_sum = given.target_sum;
  processing.log_transform = given.log_transform;
  processing.n_top_genes = given.n_top_genes;
  processing.flavor = given.flavor;
}

int run(Session& session, PreprocessArguments& arguments) {
  convert::ConvertOptions& convert = arguments.options.convert;
  convert::ProcessingOptions& processing = arguments.options.processing;
  if (arguments.resume) convert.existing = convert::ExistingTarget::kResume;
  if (arguments.overwrite) convert.existing = convert::ExistingTarget::kOverwrite;
  convert.stop = session.stop.get_token();
  if (!arguments.config.empty()) follow_preprocess_config(session, arguments);
  if (arguments.skips_normalize) processing.normalize = false;
  if (arguments.skips_log) processing.log_transform = false;
  if (arguments.target_sum) processing.target_sum = *arguments.target_sum;
  if (arguments.n_top_genes) processing.n_top_genes = *arguments.n_top_genes;
  if (!arguments.flavor.empty()) processing.flavor = convert::flavor_from_name(arguments.flavor);
  if (!arguments.scheduler.empty())
    return run_on_workers(session, {arguments.scheduler, arguments.has_budget}, arguments.inputs,
                          {.convert = convert, .processing = processing});
  convert.input = open_cells(session, arguments.inputs);
  return run_preprocess(session, arguments.options);
}

void add_steps(CLI::App& verb, PreprocessArguments& arguments) {
  convert::ProcessingOptions& processing = arguments.options.processing;
  CLI::Option* no_normalize = verb.add_flag("--no-normalize", arguments.skips_normalize,
                                            "Leave the totals of cells as they are");
  verb.add_option("--target-sum", arguments.target_sum,
                  "Total of a normalised cell, in counts [default: 10000]")
      ->check(number_between(1e-30, 1e30))
      ->excludes(no_normalize)
      ->type_name("X");
  verb.add_flag("--no-log", arguments.skips_log, "Leave out log(1 + x)");
  verb.add_option("--hvg", arguments.n_top_genes,
                  "Keep this many highly variable genes [default: all genes]")
      ->check(whole_number(1, 2'147'483'647))
      ->type_name("GENES");
  verb.add_option("--hvg-flavor", arguments.flavor,
                  "How they are found, as scanpy does: seurat, cell_ranger or, in counts, "
                  "seurat_v3 [default: seurat]")
      ->check(one_of({"seurat", "cell_ranger", "seurat_v3"}))
      ->type_name("NAME");
  verb.add_option("--batch-key", processing.batch_key,
                  "obs column: highly variable genes are found in each batch and joined")
      ->type_name("COLUMN");
  verb.add_option("--min-genes", processing.min_genes,
                  "Leave out cells with fewer genes [default: 0]")
      ->check(whole_number(0))
      ->type_name("GENES");
  verb.add_option("--min-cells", processing.min_cells,
                  "Leave out genes in fewer of the cells that stay [default: 0]")
      ->check(whole_number(0))
      ->type_name("CELLS");
  verb.add_option("--max-mito", processing.max_mito_share,
                  "Leave out cells with a larger share of mitochondrial counts, 0.05 for 5 % "
                  "[default: 1]")
      ->check(number_between(0, 1))
      ->type_name("SHARE");
  verb.add_option("--mito-prefix", processing.mito_prefix,
                  "Of the names of mitochondrial genes, in upper or lower case [default: MT-]")
      ->type_name("TEXT");
  verb.add_flag("--keep-counts", processing.keeps_counts,
                "Keep the counts as layer 'counts' beside the changed values");
  verb.add_flag("--force", processing.is_forced,
                "Although the data says that this was done before, or holds fractions");
}

}  // namespace

int run_preprocess(Session& session, convert::PreprocessOptions options) {
  convert::PreprocessResult result;
  {
    ProgressLine line(session.quiet, "cells");
    options.convert.progress = line.callback();
    result = convert::preprocess(options);
  }
  const std::string& output = options.convert.output_dir;
  print(session.json ? convert::result_json(output, result) : convert::result_text(output, result));
  return 0;
}

void add_preprocess(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<PreprocessArguments>();
  convert::ConvertOptions& convert = arguments->options.convert;
  CLI::App& verb = *program.add_subcommand(
      "preprocess", "Normalise, log-transform and filter counts, and keep highly variable genes");
  verb.add_option("--input,inputs", arguments->inputs.open.paths,
                  "Files (.h5ad), globs or shard directories with raw counts")
      ->type_name("INPUT");
  verb.add_option("--output", convert.output_dir,
                  "What to write: a file where it ends in .h5ad, else a directory of shards")
      ->required()
      ->type_name("PATH");
  add_config_option(verb, arguments->config,
                    "Settings: data.preprocessing, data.vocab, and data.paths where no INPUT is "
                    "given; options here come first");
  add_steps(verb, *arguments);
  verb.add_option("--shard-size", convert.shard_size, "Cells of a shard [default: 100000]")
      ->check(whole_number(1, std::int64_t{1} << 40))
      ->type_name("CELLS");
  add_compression_option(verb, arguments->options.compression);
  add_input_options(verb, arguments->inputs);
  add_join_option(verb, arguments->inputs.open.join);
  verb.add_flag("--resume", arguments->resume, "Continue shards whose writing was interrupted");
  verb.add_flag("--overwrite", arguments->overwrite, "Replace what is there, once the new is whole")
      ->excludes("--resume");
  add_obs_options(verb, convert.obs);
  add_scheduler_option(verb, arguments->scheduler);
  add_resource_options(verb, convert.threads, convert.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, &verb, arguments] {
    arguments->has_budget = verb.count("--memory-budget") > 0;
    if (arguments->inputs.open.paths.empty() && arguments->config.empty())
      throw CLI::ValidationError("--input is required, or a configuration with --config");
    session.run = [&session, arguments] { return run(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
