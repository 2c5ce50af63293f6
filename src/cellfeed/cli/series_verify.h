// cellfeed series verify: every byte of a series directory against its checksums.
#pragma once

#include "cellfeed/cli/session.h"

namespace CLI {
class App;
}

namespace cellfeed::cli {

// series: the verb that it goes under.
void add_series_verify(CLI::App& series, Session& session);

}  // namespace cellfeed::cli
