// SharedOptions: what a conversion by several processes is asked for, as a text that they all get.
// Pure.
#pragma once

#include <optional>
#include <string>

#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

// Paths are absolute, and the same for all processes.
struct SharedOptions {
  // Threads, budget, progress, stop and cells are of each process, and not in the text.
  ConvertOptions convert;
  std::optional<ProcessingOptions> processing{};  // what preprocess does; empty: nothing
  // Of rows of inputs that are stored otherwise, as RowCacheOptions's; empty: these are refused.
  std::optional<std::string> cache_dir{};
};

std::string to_text(const SharedOptions& options);
// Throws kInvalidArgument naming what is missing or of another type.
SharedOptions shared_options_of(const std::string& text);

}  // namespace cellfeed::convert
