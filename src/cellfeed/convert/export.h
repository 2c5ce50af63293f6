// export_h5ad: cells -> one .h5ad, equal to what shards were made from.
// Thread contract: reads and decodes on a pool of options.threads; writes and reports progress on
// the caller.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/input_cells.h"
#include "cellfeed/convert/inputs/obs_choice.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/available_memory.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"

namespace cellfeed::convert {

struct ExportOptions {
  InputCells input{};
  std::string output;  // .h5ad
  ObsChoice obs{};     // columns to write
  // Genes of shards in mean order are given back in the source's order; true keeps the order they
  // are stored in.
  bool keep_stored_gene_order = false;
  bool keep_source_columns = false;  // obs columns _source_file and _source_row of all cells
  format::h5ad::Compression compression = format::h5ad::Compression::kNone;
  int threads = 0;  // 0: what the machine allows
  std::int64_t memory_budget = exec::default_memory_budget(
      512'000'000);  // bytes held by pieces under way and caches of compressed inputs
  bool overwrite = false;
  ProgressCallback progress;
  std::stop_token stop;
};

struct ExportResult {
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = 0;
  std::int64_t bytes = 0;
  double seconds = 0;
  double cells_per_second = 0;
  std::string left_out_text;  // as ConvertResult's
};

// Throws what reading and writing throw, kAlreadyExists, kCancelled; a failed run leaves no file.
ExportResult export_h5ad(const ExportOptions& options);

}  // namespace cellfeed::convert
