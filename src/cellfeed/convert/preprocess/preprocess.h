// preprocess: cells -> normalised, log-transformed, filtered cells as shards or as one .h5ad, in
// bounded memory: one pass that looks at every value, one that writes.
// Thread contract: as convert_to_shards.
#pragma once

#include <string>

#include "cellfeed/convert/export.h"
#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/convert/shard_conversion.h"

namespace cellfeed::convert {

struct PreprocessOptions {
  ProcessingOptions processing{};
  // Where output_dir ends in .h5ad it is the file to write, and options for shards do not count.
  ConvertOptions convert{};
  format::h5ad::Compression compression = format::h5ad::Compression::kNone;  // of .h5ad
};

struct PreprocessResult {
  std::int64_t n_cells = 0, n_genes = 0, nnz = 0;
  std::int64_t n_cells_before = 0, n_genes_before = 0;
  std::int64_t n_shards = 0;  // 0: one .h5ad
  std::int64_t bytes = 0;
  double seconds = 0;                  // of both passes
  double cells_per_second = 0;         // of the input, in that time
  std::string processing_json;         // as it is recorded
  std::string left_out_text;           // as ConvertResult's
  std::int64_t n_uploads_removed = 0;  // as ConvertResult's
  std::vector<std::string> warnings;   // the same
};

// Throws what its parts throw; kInvalidArgument before anything is written where values are no
// counts, or were processed before.
PreprocessResult preprocess(const PreprocessOptions& options);

}  // namespace cellfeed::convert
