// cellfeed plan: what a run will do, without reading expression.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/number_text.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/loader/run_estimate.h"

namespace cellfeed::cli {
namespace {

struct PlanArguments {
  std::vector<std::string> inputs, var_keys;
  CacheArguments cache;
  format::FileChoice choice;
  std::string layer = "X", join, partition = "auto", remainder = "pad";
  loader::RunSettings run;
};

nlohmann::ordered_json estimate_json(const loader::RunEstimate& e) {
  nlohmann::ordered_json json = {{"samples", e.cells},
                                 {"batches_per_rank", e.batches_per_rank},
                                 {"last_batch_rows", e.last_batch_rows},
                                 {"padded", e.padded},
                                 {"dropped", e.dropped},
                                 {"bytes_used_per_rank", e.bytes_used},
                                 {"bytes_read_per_rank", e.bytes_read},
                                 {"fetch_rows", e.fetch_rows},
                                 {"fetch_runs", e.fetch_runs},
                                 {"fetch_bytes", e.fetch_bytes},
                                 {"batch_bytes", e.batch_bytes}};
  json["label_entropy_bits"] = e.has_labels ? nlohmann::ordered_json(e.entropy_bits) : nullptr;
  json["random_entropy_bits"] =
      e.has_labels ? nlohmann::ordered_json(e.random_entropy_bits) : nullptr;
  json["warnings"] = nlohmann::ordered_json::array();
  for (const auto& advice : e.advice)
    json["warnings"].push_back({{"warning", advice.warning}, {"better", advice.remedy}});
  return json;
}

std::string estimate_text(const loader::RunEstimate& e, const sampling::PlanOptions& plan) {
  std::string text = fmt::format("batches per rank   {} of {} cells{} on each of {} rank{}\n",
                                 grouped(e.batches_per_rank), grouped(plan.batch_size),
                                 e.last_batch_rows == plan.batch_size
                                     ? ""
                                     : fmt::format(", the last of {}", e.last_batch_rows),
                                 plan.world_size, plan.world_size == 1 ? "" : "s");
  text += fmt::format("remainder          {} repeated, {} left out\n", grouped(e.padded),
                      grouped(e.dropped));
  text += fmt::format("read per rank      {} for {} used ({:.2f} bytes a byte)\n",
                      format_byte_size(static_cast<std::int64_t>(e.bytes_read)),
                      format_byte_size(static_cast<std::int64_t>(e.bytes_used)),
                      e.bytes_used > 0 ? e.bytes_read / e.bytes_used : 0);
  text += fmt::format("fetch group        {:.0f} rows in {:.0f} runs, {} while it is read\n",
                      e.fetch_rows, e.fetch_runs, format_byte_size(e.fetch_bytes));
  text += fmt::format("memory             {} a CSR batch of float32, before read-ahead\n",
                      format_byte_size(e.batch_bytes));
  if (e.has_labels)
    text += fmt::format("label entropy      {:.3f} bits a batch; true random {:.3f}\n",
                        e.entropy_bits, e.random_entropy_bits);
  for (const auto& advice : e.advice)
    text += fmt::format("warning: {}; better: {}\n", advice.warning, advice.remedy);
  return text;
}

int run_plan(Session& session, PlanArguments& arguments) {
  collection::CollectionOptions options;
  options.open.layer = arguments.layer;
  options.open.choice = arguments.choice;
  options.open.row_maker = row_maker(session, arguments.cache, arguments.inputs);
  options.join = collection::join_from_name(arguments.join);
  options.var_keys = arguments.var_keys;
  const auto cells = collection::Collection::open(arguments.inputs, options);
  warn_left_out(*cells);
  auto& plan = arguments.run.plan;
  plan.partition =
      sampling::partition_from_name(arguments.partition, cells->is_chunked(), plan.world_size);
  plan.remainder = sampling::remainder_from_name(arguments.remainder);
  const auto estimate = loader::estimate_run(*cells, arguments.run);
  print(session.json ? json_line(estimate_json(estimate)) : estimate_text(estimate, plan));
  return 0;
}

}  // namespace

void add_plan(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<PlanArguments>();
  auto& run = arguments->run;
  run.plan.batch_size = 1024;
  run.plan.fetch_factor = 16;
  CLI::App& verb = *program.add_subcommand(
      "plan", "Say what a training run will read and yield, without reading expression");
  verb.add_option("inputs", arguments->inputs, "Files, globs or shard directories")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--batch-size", run.plan.batch_size,
                  "Cells of a batch on one rank [default: 1024]")
      ->check(whole_number(1));
  verb.add_option("--block-size", run.block_size,
                  "Consecutive cells of a block; 1: true random, 0: storage order [default: 8]")
      ->check(whole_number(0));
  verb.add_option("--fetch-factor", run.plan.fetch_factor,
                  "Batches read and shuffled together [default: 16]")
      ->check(whole_number(1));
  verb.add_option("--world-size", run.plan.world_size, "Ranks [default: 1]")
      ->check(whole_number(1));
  verb.add_option("--partition", arguments->partition, "interleave, group or auto [default: auto]")
      ->check(one_of({"interleave", "group", "auto"}));
  verb.add_option("--remainder", arguments->remainder, "pad, drop or error [default: pad]")
      ->check(one_of({"pad", "drop", "error"}));
  verb.add_flag("--drop-last", run.plan.drop_last, "Leave out a last batch that is short");
  verb.add_option("--label", run.label, "obs column whose entropy per batch is estimated")
      ->type_name("COLUMN");
  add_join_option(verb, arguments->join);
  add_var_key_option(verb, arguments->var_keys);
  add_layer_option(verb, arguments->layer, true);
  add_choice_options(verb, arguments->choice);
  add_cache_options(verb, arguments->cache);
  add_memory_budget_option(verb, run.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_plan(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
