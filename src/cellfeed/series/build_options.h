// What options of a build go together. Pure.
#pragma once

#include "cellfeed/series/build.h"

namespace cellfeed::series {

// Throws kInvalidArgument.
void check_build_options(const BuildOptions& options);

}  // namespace cellfeed::series
