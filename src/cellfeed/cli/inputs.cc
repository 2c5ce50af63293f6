#include "cellfeed/cli/inputs.h"

#include <cstdio>

namespace cellfeed::cli {
namespace {

void add_filter_option(CLI::App& verb, std::string& filter) {
  verb.add_option(
          "--filter", filter,
          "Only cells that this is true of, by their obs: \"tissue == 'lung' and n_counts > "
          "500\" [default: all cells]")
      ->check([](const std::string& given) {
        return given.empty() ? "--filter must be an expression, not ''" : std::string();
      })
      ->type_name("EXPR");
}

}  // namespace

void add_input_options(CLI::App& verb, InputArguments& arguments) {
  convert::InputOptions& open = arguments.open;
  add_filter_option(verb, open.filter);
  add_layer_option(verb, open.layer);
  add_var_key_option(verb, open.var_keys);
  verb.add_flag("--make-unique", open.make_unique,
                "Number repeated gene names (A, A-1, ...) instead of refusing them");
  verb.add_option("--cache-dir", arguments.cache.dir,
                  "Cache the rows of inputs that are stored by columns (CSC) in this folder, and "
                  "whole copies of inputs in buckets [default: nothing is cached]")
      ->type_name("DIR");
  add_choice_options(verb, open.choice);
}

void add_matrix_options(CLI::App& verb, InputArguments& arguments) {
  verb.add_option("--layers", arguments.open.layers,
                  "Layers to write beside --layer; may be given several times")
      ->allow_extra_args(false)
      ->type_name("NAME");
  verb.add_option("--obsm", arguments.open.obsm,
                  "Arrays of obsm to write as well; may be given several times")
      ->allow_extra_args(false)
      ->type_name("NAME");
}

convert::InputCells open_cells(const Session& session, const InputArguments& arguments,
                               MissingGenes missing) {
  convert::InputOptions open = arguments.open;
  if (!arguments.cache.dir.empty())
    open.row_maker = row_maker(session, arguments.cache, open.paths);
  const convert::OpenedInputs opened = convert::open_inputs(open);
  warn_left_out(*opened.input.cells);
  for (const std::string& warning : opened.warnings) fmt::print(stderr, "--filter: {}\n", warning);
  const std::string& text = opened.input.cells->missing_genes_text();
  if (missing == MissingGenes::kWarn && !text.empty()) fmt::print(stderr, "{}\n", text);
  return opened.input;
}

nlohmann::json json_of(const InputArguments& arguments) {
  const convert::InputOptions& open = arguments.open;
  nlohmann::json json = {{"paths", open.paths},
                         {"layer", open.layer},
                         {"layers", open.layers},
                         {"obsm", open.obsm},
                         {"filter", open.filter},
                         {"make_unique", open.make_unique},
                         {"obs", open.choice.table.obs_columns}};
  const auto add = [&](const char* key, const auto& value) {
    if (!value.empty()) json[key] = value;
  };
  add("join", open.join);
  add("genes", open.genes);
  add("var_key", open.var_keys);
  add("genome", open.choice.genome);
  add("feature_type", open.choice.feature_type);
  add("modality", open.choice.modality);
  add("genes_column", open.choice.table.genes_column);
  add("values_column", open.choice.table.values_column);
  add("var", open.choice.table.var);
  if (open.choice.transpose) json["transpose"] = *open.choice.transpose;
  // Without a folder that all processes see, each of them would have to sort the entries.
  json["cache_dir"] = nullptr;
  add("cache_dir", arguments.cache.dir);
  return json;
}

}  // namespace cellfeed::cli
