// cellfeed info: what a file or shard directory holds.
#include "cellfeed/convert/info.h"

#include <CLI/CLI.hpp>
#include <memory>

#include "cellfeed/cli/options.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/collection/paths.h"

namespace cellfeed::cli {
namespace {

struct InfoArguments {
  std::vector<std::string> paths, var_keys;
  format::OpenOptions open;
};

int run_info(Session& session, const InfoArguments& arguments) {
  std::vector<convert::PathDescription> descriptions;
  for (const std::string& given : arguments.paths)
    for (const std::string& path : collection::expand_paths({given}))
      descriptions.push_back(convert::describe_path(path, arguments.open, arguments.var_keys));
  if (session.json && descriptions.size() == 1) {
    print(convert::description_json(descriptions[0]) + "\n");
  } else if (session.json) {
    std::string text;
    for (const auto& description : descriptions)
      text += (text.empty() ? "[\n" : ",\n") + convert::description_json(description);
    print(text + "\n]\n");
  } else {
    std::string separator;
    for (const auto& description : descriptions) {
      print(separator + convert::description_text(description));
      separator = "\n";
    }
  }
  return 0;
}

}  // namespace

void add_info(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<InfoArguments>();
  CLI::App& verb = *program.add_subcommand(
      "info", "Say what files or shard directories hold, without reading the values");
  verb.add_option("paths", arguments->paths, "Files, globs or shard directories")
      ->required()
      ->type_name("PATH");
  add_layer_option(verb, arguments->open.layer, true);
  add_var_key_option(verb, arguments->var_keys);
  add_choice_options(verb, arguments->open.choice);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_info(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
