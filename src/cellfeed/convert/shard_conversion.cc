#include "cellfeed/convert/shard_conversion.h"

#include "cellfeed/convert/conversion_run.h"
#include "cellfeed/convert/open_conversion.h"

namespace cellfeed::convert {

SourceOptions source_options(const ConvertOptions& options) {
  SourceOptions source;
  source.paths = options.inputs;
  source.layer = options.layer;
  source.obs_choice = options.obs;
  source.choice = options.choice;
  source.join = options.join;
  source.genes = options.genes;
  source.make_unique = options.make_unique;
  source.var_keys = options.var_keys;
  source.cache_bytes = options.memory_budget / 4;
  source.row_maker = options.row_maker;
  return source;
}

bool can_widen(DType stored) { return is_integer(stored) && dtype_bytes(stored) < 8; }

ConvertResult convert_to_shards(const ConvertOptions& options) {
  OpenConversion conversion(options);
  ConversionRun run(conversion);
  run.write_missing();
  return run.finish();
}

}  // namespace cellfeed::convert
