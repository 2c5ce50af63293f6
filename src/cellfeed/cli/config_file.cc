#include "cellfeed/cli/config_file.h"

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

}  // namespace cellfeed::cli
