// SharedOptions: what a conversion by several processes is asked for, as a text that they all get.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

// output_dir is absolute, and the same for all processes.
struct SharedOptions {
  // input, threads, memory_budget, progress and stop are of each process, and not in the text.
  ConvertOptions convert;
  std::optional<ProcessingOptions> processing{};  // what preprocess does; empty: nothing
};

std::string to_text(const SharedOptions& options);
// Throws kInvalidArgument naming what is missing or of another type.
SharedOptions shared_options_of(const std::string& text);

}  // namespace cellfeed::convert
