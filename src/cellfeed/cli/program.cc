#include "cellfeed/cli/program.h"

#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "cellfeed/base/error.h"
#include "cellfeed/base/path_text.h"
#include "cellfeed/cli/checks.h"
#include "cellfeed/cli/copy_line.h"
#include "cellfeed/cli/interrupt.h"
#include "cellfeed/cli/verbs.h"
#include "cellfeed/cloud/schemes.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/exec/stop_scope.h"
#include "cellfeed/io/cache_warnings.h"

#ifndef CELLFEED_VERSION
#define CELLFEED_VERSION "0.1.0"
#endif

namespace cellfeed::cli {
namespace {

constexpr AddVerb kVerbs[] = {
    add_shard,       //
    add_append,      //
    add_preprocess,  //
    add_verify,      //
    add_info,        //
    add_export,      //
    add_simulate,    //
    add_plan,        //
    add_bench,       //
    add_cache,       //
    add_config,      //
    add_series,      //
    add_train,       //
    add_embed,       //
    add_predict,     //
};

enum ExitCode { kDone = 0, kFailed = 1, kUsage = 2 };

int report(const std::string& message, int code) {
  std::fprintf(stderr, "cellfeed: error: %s\n", mask_credentials(message).c_str());
  return code;
}

// Of a text that asks for no memory.
int report_no_memory() {
  std::fputs("cellfeed: error: out of memory; give a smaller --memory-budget or fewer --threads\n",
             stderr);
  return kFailed;
}

int parse(CLI::App& program, int argc, char** argv) {
  try {
    program.parse(argc, argv);
    return kDone;
  } catch (const CLI::Success& asked) {  // --help, --version
    program.exit(asked);
    return -1;
  } catch (const CLI::ParseError& error) {
    return report(usage_error(program, {argv + 1, argv + argc}, error), kUsage);
  }
}

void show_cache_warnings() {
  for (const std::string& text : io::take_cache_warnings())
    std::fprintf(stderr, "cellfeed: warning: %s\n", mask_credentials(text).c_str());
}

int run_stoppable(const Session& session) {
  const exec::StopScope scope(session.stop.get_token());
  return session.run();
}

int run_verb(Session& session) {
  try {
    const InterruptGuard guard(session.stop);
    const CopyLine copies(session.quiet);
    const int code = run_stoppable(session);
    if (std::fflush(stdout) != 0) return report("cannot write the result to stdout", kFailed);
    return code;
  } catch (const Error& error) {
    const int signal = InterruptGuard::signal_received();
    if (error.kind() == ErrorKind::kCancelled && signal != 0)
      return report(error.what(), 128 + signal);
    return report(error.what() + cloud::cache_note(error), kFailed);
  } catch (const std::bad_alloc&) {
    return report_no_memory();
  } catch (const std::exception& error) {
    return report(error.what(), kFailed);
  }
}

}  // namespace

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size())
    throw Error(ErrorKind::kIo, "cannot write the result to stdout");
}

namespace {

int run_parsed(int argc, char** argv) {
  cloud::register_schemes();
  Session session;
  CLI::App program("Feeds neural networks from single-cell atlases that do not fit in memory.",
                   "cellfeed");
  program.set_version_flag("--version", "cellfeed " CELLFEED_VERSION);
  program.require_subcommand(1);
  program.footer(
      "Exit codes: 0 done, 1 failed, 2 wrong usage, 130 interrupted. Run 'cellfeed VERB --help' "
      "for its options.");
  for (const AddVerb add : kVerbs) add(program, session);
  if (const int code = parse(program, argc, argv); code != kDone) return code < 0 ? kDone : code;
  const int code = run_verb(session);
  show_cache_warnings();
  return code;
}

}  // namespace

// Before the verb runs, options of all of them are made.
int run_program(int argc, char** argv) {
  try {
    return run_parsed(argc, argv);
  } catch (const std::bad_alloc&) {
    return report_no_memory();
  }
}

}  // namespace cellfeed::cli
