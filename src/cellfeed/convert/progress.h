// Progress of conversions: that of every long operation.
#pragma once

#include "cellfeed/exec/progress.h"

namespace cellfeed::convert {

using exec::Progress;
using exec::ProgressCallback;
using exec::ProgressMeter;

}  // namespace cellfeed::convert
