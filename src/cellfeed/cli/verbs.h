// The verbs of the program. To add one: write its file, declare it here, and add one line to kVerbs
// in program.cc.
#pragma once

#include <functional>

#include "cellfeed/cli/session.h"

namespace CLI {
class App;
}

namespace cellfeed::cli {

// Adds one verb to the program; parsing its options and running it both happen later.
using AddVerb = void (*)(CLI::App& program, Session& session);

void add_shard(CLI::App& program, Session& session);
void add_append(CLI::App& program, Session& session);
void add_verify(CLI::App& program, Session& session);
void add_info(CLI::App& program, Session& session);
void add_export(CLI::App& program, Session& session);
void add_simulate(CLI::App& program, Session& session);
void add_plan(CLI::App& program, Session& session);
void add_bench(CLI::App& program, Session& session);
void add_preprocess(CLI::App& program, Session& session);
void add_cache(CLI::App& program, Session& session);
void add_config(CLI::App& program, Session& session);
void add_series(CLI::App& program, Session& session);
void add_train(CLI::App& program, Session& session);
void add_embed(CLI::App& program, Session& session);
void add_predict(CLI::App& program, Session& session);

}  // namespace cellfeed::cli
