// Any bytes as a configuration file: an error that names the file, or settings that are the same
// when they are shown and read again.
#include <cstdlib>
#include <string>

#include "cellfeed/config/config_text.h"
#include "fuzz/target.h"

namespace {

namespace config = cellfeed::config;

void require(bool holds) {
  if (!holds) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view text(reinterpret_cast<const char*>(data), size);
  try {
    const config::Config first = config::Config::parse(text, "a.yaml");
    const config::Config again =
        config::Config::parse(config::effective_settings_yaml(first), "b.yaml");
    for (const config::Setting& setting : config::settings())
      require(!first.is_used(setting) || first.value(setting.key) == again.value(setting.key));
  } catch (const cellfeed::Error& error) {
    require(error.kind() == cellfeed::ErrorKind::kInvalidArgument && error.path() == "a.yaml");
  }
  return 0;
}

std::vector<std::vector<std::uint8_t>> cellfeed::fuzz::seed_inputs() {
  const std::string texts[] = {
      "data:\n  source: local\n  paths:\n    - ./a.h5ad\n    - 'b: c'\n  streaming: true\n"
      "  streaming_chunk_size: 100\n  preprocessing:\n    normalize: true\n    target_sum: 1e4\n",
      "training:\n  batch_size: 256  # cells\n  sampling: {strategy: weighted, label_key: \"x\"}\n"
      "  fsdp:\n    enabled: true\n    sharding_strategy: FULL_SHARD\n",
      "model: {architecture: mlp, d_model: 512}\ntokenizer:\n  strategy: binned\n",
      "data: &a\n  paths: [*a, !!str x, >\n folded\n]\n---\n? k\n: |\n  v\n"};
  std::vector<std::vector<std::uint8_t>> seeds;
  for (const std::string& text : texts) seeds.emplace_back(text.begin(), text.end());
  return seeds;
}
