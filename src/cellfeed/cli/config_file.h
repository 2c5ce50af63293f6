// Configuration files, as verbs read them.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

#include "cellfeed/cli/inputs.h"
#include "cellfeed/cli/session.h"
#include "cellfeed/config/config.h"
#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::cli {

// --config; what the verb takes from it belongs into help.
void add_config_option(CLI::App& verb, std::string& path, const std::string& help);
// Throws kNotFound, kIo, and what config::Config::parse throws.
config::Config read_config(const std::string& path);

// data.cloud.cache_dir: inputs that are no local files are copied there when they are opened.
void keep_copies(const config::Config& settings, const std::vector<std::string>& inputs);
// data.preprocessing: what is done to the values. REQUIRES: it is given.
convert::ProcessingOptions processing_of(const config::Config& settings);
// data.vocab: the genes that are kept; empty where there is none. Reads every cell of the inputs
// where data.vocab.n_genes asks for the most detected ones.
std::vector<std::string> vocabulary_of(const Session& session, const config::Config& settings,
                                       const InputArguments& inputs,
                                       convert::ConvertOptions convert);

}  // namespace cellfeed::cli
