// cellfeed train, embed, predict: checked here, run by Python, where torch is.
#include <CLI/CLI.hpp>
#include <memory>
#include <optional>

#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/config_file.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/python_verb.h"
#include "cellfeed/cli/verbs.h"

namespace cellfeed::cli {
namespace {

struct TrainArguments {
  std::string config, runs_dir = "runs";
  std::optional<std::string> resume, name;
  int num_devices = 0, num_nodes = 0;  // 0: as the configuration says
};

struct ApplyArguments {
  std::string verb, checkpoint, output, device = "cpu";
  std::vector<std::string> inputs;
  int batch_size = 1024;
  bool is_forced = false, overwrites = false;
};

int run_train(const Session& session, const TrainArguments& chosen) {
  read_config(chosen.config);  // a mistake is said at once, and without torch
  std::vector<std::string> arguments = {"train", "--config", chosen.config, "--runs-dir",
                                        chosen.runs_dir};
  const auto add = [&](const char* flag, const std::string& value) {
    arguments.emplace_back(flag);
    arguments.push_back(value);
  };
  if (chosen.num_devices > 0) add("--num-devices", std::to_string(chosen.num_devices));
  if (chosen.num_nodes > 0) add("--num-nodes", std::to_string(chosen.num_nodes));
  if (chosen.resume) add("--resume", *chosen.resume);
  if (chosen.name) add("--name", *chosen.name);
  return run_python(session, std::move(arguments));
}

int run_apply(const Session& session, const ApplyArguments& chosen) {
  std::vector<std::string> arguments = {chosen.verb};
  arguments.insert(arguments.end(), {"--output", chosen.output, "--device", chosen.device});
  arguments.insert(arguments.end(), {"--batch-size", std::to_string(chosen.batch_size)});
  if (chosen.is_forced) arguments.emplace_back("--force");
  if (chosen.overwrites) arguments.emplace_back("--overwrite");
  if (session.json) arguments.emplace_back("--json");
  if (session.quiet) arguments.emplace_back("--quiet");
  arguments.emplace_back("--");
  arguments.push_back(chosen.checkpoint);
  arguments.insert(arguments.end(), chosen.inputs.begin(), chosen.inputs.end());
  Session said = session;
  said.json = said.quiet = false;  // they stand before the "--"
  return run_python(said, std::move(arguments));
}

void add_apply(CLI::App& program, Session& session, const std::string& name,
               const std::string& help) {
  auto arguments = std::make_shared<ApplyArguments>();
  arguments->verb = name;
  CLI::App& verb = *program.add_subcommand(name, help);
  verb.add_option("checkpoint", arguments->checkpoint, "Such as runs/NAME/checkpoints/best.ckpt")
      ->required()
      ->type_name("CKPT");
  verb.add_option("inputs", arguments->inputs, "Files, globs or shard directories")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--output", arguments->output, "The .h5ad file to write")
      ->required()
      ->type_name("FILE");
  verb.add_option("--batch-size", arguments->batch_size,
                  "Cells that are computed at once [default: 1024]")
      ->check(whole_number(1, 1 << 24))
      ->type_name("CELLS");
  verb.add_option("--device", arguments->device,
                  "Where the model computes: cpu, cuda, cuda:1 [default: cpu]")
      ->type_name("NAME");
  verb.add_flag("--force", arguments->is_forced,
                "Also where values are of another kind than those trained on");
  verb.add_flag("--overwrite", arguments->overwrites, "Replace a file that is there");
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_apply(session, *arguments); };
  });
}

}  // namespace

void add_train(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<TrainArguments>();
  CLI::App& verb = *program.add_subcommand(
      "train", "Train a model as a configuration says; needs pip install 'cellfeed[train]'");
  add_config_option(verb, arguments->config, "The configuration: data, model, training");
  verb.get_option("--config")->required();
  verb.add_option("--num-devices", arguments->num_devices,
                  "Devices of each node, instead of training.num_devices")
      ->check(whole_number(1, 65536))
      ->type_name("N");
  verb.add_option("--num-nodes", arguments->num_nodes, "Machines, instead of training.num_nodes")
      ->check(whole_number(1, 65536))
      ->type_name("N");
  verb.add_option("--resume", arguments->resume,
                  "auto: go on from this run's newest checkpoint, if it has one; or a checkpoint")
      ->type_name("auto|CKPT");
  verb.add_option("--name", arguments->name,
                  "Of the run [default: that of the configuration's file]")
      ->type_name("NAME");
  verb.add_option("--runs-dir", arguments->runs_dir, "Folder of runs [default: runs]")
      ->type_name("DIR");
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_train(session, *arguments); };
  });
}

void add_embed(CLI::App& program, Session& session) {
  add_apply(program, session, "embed", "Cells -> an .h5ad with obs and the model's vectors");
}

void add_predict(CLI::App& program, Session& session) {
  add_apply(program, session, "predict", "Cells -> an .h5ad with obs and the labels predicted");
}

}  // namespace cellfeed::cli
