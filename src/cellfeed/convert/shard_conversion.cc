#include "cellfeed/convert/shard_conversion.h"

#include "cellfeed/convert/conversion_run.h"
#include "cellfeed/convert/open_conversion.h"

namespace cellfeed::convert {

bool can_widen(DType stored) { return is_integer(stored) && dtype_bytes(stored) < 8; }

ConvertResult convert_to_shards(const ConvertOptions& options) {
  OpenConversion conversion(options);
  ConversionRun run(conversion);
  run.write_missing();
  return run.finish();
}

}  // namespace cellfeed::convert
