#include "cellfeed/cli/series_verify.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/series/verify.h"

namespace cellfeed::cli {
namespace {

struct SeriesVerifyArguments {
  std::string dir;
  int threads = 0;
};

int run_series_verify(Session& session, const SeriesVerifyArguments& arguments) {
  exec::ThreadPool pool(exec::checked_thread_count(arguments.threads));
  std::vector<series::SeriesDamage> damages;
  std::int64_t bytes = 0;
  {
    ProgressLine line(session.quiet, "bytes");
    const exec::ProgressMeter clock({}, "verifying", 0);
    damages =
        series::verify_series(arguments.dir, pool, [&](std::int64_t done, std::int64_t total) {
          exec::throw_if_stopped();
          bytes = total;
          const double seconds = clock.seconds();
          line.show(
              {"verifying", done, total, seconds > 0 ? static_cast<double>(done) / seconds : 0});
        });
  }
  nlohmann::ordered_json json = {
      {"path", arguments.dir}, {"ok", damages.empty()}, {"bytes", bytes}};
  json["damages"] = nlohmann::ordered_json::array();
  std::string text;
  for (const auto& d : damages) {
    json["damages"].push_back(nlohmann::ordered_json{
        {"file", d.file}, {"begin", d.begin}, {"end", d.end}, {"what", d.what}});
    text += fmt::format("damaged: {}, bytes {} to {}: {}\n", d.file, d.begin, d.end, d.what);
  }
  if (damages.empty()) text = fmt::format("every byte is as written: {}\n", arguments.dir);
  print(session.json ? json_line(json) : text);
  if (damages.empty()) return 0;
  if (!session.json)
    std::fprintf(stderr, "cellfeed: error: %s: %zu damaged %s; build the series again\n",
                 arguments.dir.c_str(), damages.size(), damages.size() == 1 ? "place" : "places");
  return 1;
}

}  // namespace

void add_series_verify(CLI::App& series, Session& session) {
  auto arguments = std::make_shared<SeriesVerifyArguments>();
  CLI::App& verb = *series.add_subcommand(
      "verify", "Check every byte of a series directory; exit code 1 when any is damaged");
  verb.add_option("dir", arguments->dir, "A series directory")->required()->type_name("DIR");
  add_threads_option(verb, arguments->threads, "Threads that read");
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_series_verify(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
