#include "cellfeed/cli/shared_run.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <nlohmann/json.hpp>
#include <span>

#include "cellfeed/base/error.h"
#include "cellfeed/cli/python_verb.h"

namespace cellfeed::cli {
namespace {

// The descriptor of a file in memory that the next program reads: genes may be more than
// arguments of a process hold.
int hand_over(const std::string& text) {
  const int fd = ::memfd_create("cellfeed-options", 0);
  if (fd < 0) throw_errno(errno, {}, "make a file in memory");
  for (std::span<const char> rest(text); !rest.empty();) {
    const ssize_t written = ::write(fd, rest.data(), rest.size());
    if (written < 0 && errno != EINTR) throw_errno(errno, {}, "write to a file in memory");
    rest = rest.subspan(static_cast<std::size_t>(std::max<ssize_t>(0, written)));
  }
  ::lseek(fd, 0, SEEK_SET);
  return fd;
}

}  // namespace

void add_scheduler_option(CLI::App& verb, std::string& scheduler) {
  verb.add_option("--scheduler", scheduler,
                  "Address of a Dask scheduler, tcp://HOST:8786: its workers write the shards, and "
                  "all of them see inputs and output under the same paths; --threads and "
                  "--memory-budget are of each; needs pip install 'cellfeed[dask]' [default: this "
                  "process]")
      ->type_name("ADDRESS");
}

int run_on_workers(const Session& session, const WorkerArguments& workers,
                   const InputArguments& inputs, const convert::SharedOptions& options) {
  nlohmann::json json = nlohmann::json::parse(to_text(options));
  json["open"] = json_of(inputs);
  json["threads"] = options.convert.threads;
  json["memory_budget"] = workers.has_budget ? options.convert.memory_budget : 0;
  const int fd = hand_over(json.dump());
  return run_python(session, {"write-shards", "--scheduler", workers.scheduler, "--options-fd",
                              std::to_string(fd)});
}

}  // namespace cellfeed::cli
