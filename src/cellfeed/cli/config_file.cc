#include "cellfeed/cli/config_file.h"

#include "cellfeed/cli/progress_line.h"
#include "cellfeed/cloud/storage_options.h"
#include "cellfeed/convert/gene_vocabulary.h"
#include "cellfeed/io/small_file.h"

namespace cellfeed::cli {

void add_config_option(CLI::App& verb, std::string& path, const std::string& help) {
  verb.add_option("--config", path, help)
      ->check([](const std::string& given) {
        return given.empty() ? "--config must name a file, not ''" : std::string();
      })
      ->type_name("FILE");
}

config::Config read_config(const std::string& path) {
  return config::Config::parse(io::read_small_file(path, config::kMaxConfigBytes), path);
}

void keep_copies(const config::Config& settings, const std::vector<std::string>& inputs) {
  constexpr std::string_view kDir = "data.cloud.cache_dir", kBytes = "data.cloud.cache_bytes";
  const std::string& cached = settings.text("data.cloud.cache");
  if (cached == "rows")
    settings.refuse(
        ErrorKind::kInvalidArgument, "data.cloud.cache",
        "rows are cached for training, and each row is read once here: leave it out, or "
        "set it to files or blocks");
  if (settings.has_value(kDir))
    cloud::cache_in(settings.text(kDir), inputs, cached,
                    settings.has_value(kBytes) ? settings.text(kBytes) : "");
}

convert::ProcessingOptions processing_of(const config::Config& settings) {
  convert::ProcessingOptions processing;
  processing.normalize = settings.flag("data.preprocessing.normalize");
  processing.target_sum = settings.number("data.preprocessing.target_sum");
  processing.log_transform = settings.flag("data.preprocessing.log_transform");
  processing.flavor = convert::flavor_from_name(settings.text("data.preprocessing.hvg_flavor"));
  if (settings.has_value("data.preprocessing.n_top_genes"))
    processing.n_top_genes = settings.whole("data.preprocessing.n_top_genes");
  return processing;
}

std::vector<std::string> vocabulary_of(const Session& session, const config::Config& settings,
                                       const InputArguments& inputs,
                                       convert::ConvertOptions convert) {
  if (settings.has_value("data.vocab.path"))
    return convert::read_gene_vocabulary(settings.text("data.vocab.path"));
  if (!settings.has_value("data.vocab.n_genes")) return {};
  convert.input = open_cells(session, inputs);
  ProgressLine line(session.quiet, "cells");
  convert.progress = line.callback();
  return convert::most_detected_genes(convert, settings.whole("data.vocab.n_genes"));
}

}  // namespace cellfeed::cli
