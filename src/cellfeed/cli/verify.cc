// cellfeed verify: every byte of a shard directory against its checksums.
#include "cellfeed/format/shard/verify.h"

#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <mutex>
#include <nlohmann/json.hpp>

#include "cellfeed/base/error.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/json_line.h"
#include "cellfeed/cli/options.h"
#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::cli {
namespace {

struct VerifyArguments {
  std::string dir;
  int threads = 0;
};

std::string damages_json(const std::string& dir, std::int64_t bytes,
                         const std::vector<format::shard::Damage>& damages) {
  nlohmann::ordered_json json = {{"path", dir}, {"ok", damages.empty()}, {"bytes", bytes}};
  json["damages"] = nlohmann::ordered_json::array();
  for (const auto& d : damages)
    json["damages"].push_back(nlohmann::ordered_json{{"file", d.file},
                                                     {"shard", d.shard},
                                                     {"segment", d.segment},
                                                     {"begin", d.begin},
                                                     {"end", d.end},
                                                     {"what", d.what}});
  return json_line(json);
}

int run_verify(Session& session, const VerifyArguments& arguments) {
  exec::ThreadPool pool(exec::checked_thread_count(arguments.threads));
  std::int64_t bytes = 0;
  std::vector<format::shard::Damage> damages;
  {
    ProgressLine line(session.quiet, "bytes");
    convert::ProgressMeter clock({}, "verifying", 0);
    damages = format::shard::verify_shard_dir(
        arguments.dir,
        [&](std::int64_t done, std::int64_t total) {
          exec::throw_if_stopped();
          bytes = total;
          const double seconds = clock.seconds();
          line.show(
              {"verifying", done, total, seconds > 0 ? static_cast<double>(done) / seconds : 0});
        },
        [&pool](std::int64_t n, const std::function<void(std::int64_t)>& task) {
          pool.parallel_for(n, task);
        });
  }
  if (session.json) {
    print(damages_json(arguments.dir, bytes, damages));
  } else {
    for (const auto& damage : damages)
      print(fmt::format("damaged: {}\n", format::shard::describe(damage)));
    if (damages.empty())
      print(fmt::format("every byte is as written: {}\n", arguments.dir));
    else
      std::fprintf(stderr, "cellfeed: error: %s: %zu damaged %s; convert the sources again\n",
                   arguments.dir.c_str(), damages.size(), damages.size() == 1 ? "place" : "places");
  }
  return damages.empty() ? 0 : 1;
}

}  // namespace

void add_verify(CLI::App& program, Session& session) {
  auto arguments = std::make_shared<VerifyArguments>();
  CLI::App& verb = *program.add_subcommand(
      "verify", "Check every byte of a shard directory; exit code 1 when any is damaged");
  verb.add_option("dir", arguments->dir, "A shard directory")->required()->type_name("DIR");
  add_threads_option(verb, arguments->threads, "Threads that read");
  add_output_options(verb, session);
  verb.callback([&session, arguments] {
    session.run = [&session, arguments] { return run_verify(session, *arguments); };
  });
}

}  // namespace cellfeed::cli
