// A picture of loading rate against diversity, as SVG text.
#pragma once

#include <string>

#include "cellfeed/loader/tuning.h"

namespace cellfeed::cli {

// One dot a setting: cells/s upwards (logarithmic); label entropy to the right, or block size
// (logarithmic) without labels.
std::string draw_rate_plot(const loader::TuningResult& result);

}  // namespace cellfeed::cli
