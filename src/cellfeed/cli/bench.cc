// cellfeed bench: measures a few seconds of loading and suggests settings.
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include "cellfeed/base/byte_size.h"
#include "cellfeed/base/number_text.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/rate_plot.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/io/atomic_file.h"
#include "cellfeed/loader/tuning.h"

namespace cellfeed::cli {
namespace {

struct BenchArguments {
  std::vector<std::string> inputs, var_keys;
  CacheArguments cache;
  format::FileChoice choice;
  std::string layer = "X", join, plot;
  loader::TuningOptions tuning;
};

nlohmann::ordered_json point_json(const loader::TuningPoint& p, bool has_labels) {
  nlohmann::ordered_json json = {{"block_size", p.block_size},
                                 {"fetch_factor", p.fetch_factor},
                                 {"threads", p.threads},
                                 {"cells_per_second", p.cells_per_second},
                                 {"megabytes_per_second", p.megabytes_per_second},
                                 {"bytes_read_per_used", p.bytes_read_per_used}};
  json["label_entropy_bits"] = has_labels ? nlohmann::ordered_json(p.entropy_bits) : nullptr;
  return json;
}

std::string tuning_json(const loader::TuningResult& result) {
  nlohmann::ordered_json json;
  json["suggested"] = point_json(result.points[result.best], result.has_labels);
  json["suggested"]["memory_budget"] = result.memory_budget;
  json["random_entropy_bits"] =
      result.has_labels ? nlohmann::ordered_json(result.random_entropy_bits) : nullptr;
  for (const auto& point : result.points)
    json["points"].push_back(point_json(point, result.has_labels));
  return json_line(json);
}

std::string tuning_text(const loader::TuningResult& result) {
  std::string text =
      " block  fetch factor  threads     cells/s    read MB/s  read/used  label entropy\n";
  for (std::size_t i = 0; i < result.points.size(); ++i) {
    const auto& p = result.points[i];
    const std::string block = p.block_size == 0 ? "stream" : std::to_string(p.block_size);
    const std::string entropy = result.has_labels ? fmt::format("{:.3f} of {:.3f}", p.entropy_bits,
                                                                result.random_entropy_bits)
                                                  : "-";
    text += fmt::format(
        "{:>6}  {:>12}  {:>7}  {:>10}  {:>11.0f}  {:>9.2f}  {}{}\n", block, p.fetch_factor,
        p.threads, grouped(static_cast<std::int64_t>(p.cells_per_second)), p.megabytes_per_second,
        p.bytes_read_per_used, entropy, i == result.best ? "  <- suggested" : "");
  }
  const auto& best = result.points[result.best];
  text += fmt::format(
      "\nLoader(cells, BlockShuffling(block_size={}), fetch_factor={}, threads={}, "
      "memory_budget=\"{}MiB\")\n",
      best.block_size, best.fetch_factor, best.threads, (result.memory_budget >> 20) + 1);
  return text;
}

int run_bench(Session& session, BenchArguments& arguments) {
  collection::CollectionOptions options;
  options.open.layer = arguments.layer;
  options.open.choice = arguments.choice;
  options.open.row_maker = row_maker(session, arguments.cache, arguments.inputs);
  options.join = collection::join_from_name(arguments.join);
  options.var_keys = arguments.var_keys;
  arguments.tuning.stop = session.stop.get_token();
  const auto cells = collection::Collection::open(arguments.inputs, options);
  warn_left_out(*cells);
  const auto result = loader::tune(cells, arguments.tuning);
  if (!arguments.plot.empty()) {
    const std::string svg = draw_rate_plot(result);
    io::AtomicFile file(arguments.plot, io::OnExisting::kReplace);
    file.append(std::as_bytes(std::span(svg)));
    file.commit();
  }
  print(session.json ? tuning_json(result) : tuning_text(result));
  return 0;
}

}  // namespace

void add_bench(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<BenchArguments>();
  auto& tuning = arguments->tuning;
  CLI::App& verb =
      *program.add_subcommand("bench", "Measure loading for a few seconds and suggest settings");
  verb.add_option("inputs", arguments->inputs, "Files, globs or shard directories")
      ->required()
      ->type_name("INPUT");
  verb.add_option("--batch-size", tuning.batch_size, "Cells of a batch [default: 1024]")
      ->check(whole_number(1));
  verb.add_option("--label", tuning.label, "obs column whose entropy per batch must be kept")
      ->type_name("COLUMN");
  verb.add_option("--entropy", tuning.wanted_entropy,
                  "Share of true random's label entropy to keep [default: 0.98]")
      ->check(number_between(0, 1));
  verb.add_option("--seconds", tuning.seconds_per_point,
                  "Seconds of reading for each setting [default: 0.4]")
      ->check(positive_number());
  verb.add_option("--plot", arguments->plot, "Write rate against diversity as an SVG picture")
      ->type_name("FILE.svg");
  add_join_option(verb, arguments->join);
  add_var_key_option(verb, arguments->var_keys);
  add_layer_option(verb, arguments->layer);
  add_choice_options(verb, arguments->choice);
  add_cache_options(verb, arguments->cache);
  add_resource_options(verb, tuning.threads, tuning.memory_budget);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_bench(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
