// cellfeed config: checks a configuration file and says what it means.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <memory>

#include "cellfeed/base/error.h"
#include "cellfeed/cli/config_file.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/config/config_text.h"

namespace cellfeed::cli {
namespace {

struct ConfigArguments {
  std::string path;
  bool shows = false, wants_schema = false;
};

int run_config(Session& session, const ConfigArguments& arguments) {
  if (arguments.wants_schema) {
    print(config::schema_json());
    return 0;
  }
  const config::Config settings = read_config(arguments.path);
  if (session.json) {
    print(config::effective_settings_json(settings));
    return 0;
  }
  if (arguments.shows) {
    print(config::effective_settings_yaml(settings));
    return 0;
  }
  const auto given = std::ranges::count_if(
      config::settings(), [&](const config::Setting& s) { return settings.is_given(s.key); });
  print(fmt::format("{}: {} settings, no mistake\n", arguments.path, given));
  return 0;
}

}  // namespace

void add_config(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<ConfigArguments>();
  CLI::App& verb = *program.add_subcommand(
      "config", "Check a configuration file (YAML), and print what it comes to");
  CLI::Option* file =
      verb.add_option("file", arguments->path, "The configuration")->type_name("FILE");
  CLI::Option* show =
      verb.add_flag("--show", arguments->shows,
                    "Print every setting that has an effect, with its unit, defaults included");
  CLI::Option* schema = verb.add_flag("--schema", arguments->wants_schema,
                                      "Print the JSON schema of configurations, for editors");
  schema->excludes(file)->excludes(show);
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    if (arguments->path.empty() && !arguments->wants_schema)
      throw CLI::ValidationError("FILE is required, or --schema");
    session.run = [&session, arguments] { return run_config(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
