// simulate: a large .h5ad made of real cells, drawn with replacement and thinned, so that anyone
// can have an atlas.
//
// Each cell is a real one with probability 1/n; of its counts each is kept with the cell's own p,
// uniform on (0.7, 1). Values that are not whole numbers are kept or dropped whole, with that p.
// Deterministic by seed, whatever the threads. Thread contract: generates on a pool of
// options.threads; writes and reports progress on the caller.
#pragma once

#include <cstdint>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/input_cells.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/available_memory.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"

namespace cellfeed::convert {

inline constexpr const char* kSourceCellColumn = "source_cell";

struct SimulateOptions {
  InputCells input{};  // real cells
  std::int64_t n_cells = 0;
  std::string output;        // "atlas.h5ad"; with several files atlas_0.h5ad, atlas_1.h5ad, ...
  std::int64_t n_files = 1;  // of as equal sizes as can be, in order
  std::uint64_t seed = 0;
  std::string order = "random";  // "random", "source" (copies side by side) or an obs column of
                                 // labels (runs of one label)
  bool thin = true;
  format::h5ad::Compression compression = format::h5ad::Compression::kNone;
  int threads = 0;  // 0: what the machine allows
  // Bytes; half of it may hold the real cells.
  std::int64_t memory_budget = exec::default_memory_budget(512'000'000);
  bool overwrite = false;
  ProgressCallback progress;
  std::stop_token stop;
};

struct SimulateResult {
  std::int64_t n_cells = 0;
  std::int64_t n_genes = 0;
  std::int64_t nnz = 0;
  std::int64_t n_real_cells = 0;
  bool has_counts = true;  // whole numbers, thinned count by count; else values were dropped whole
  std::vector<std::string> files;
  std::int64_t bytes = 0;
  double seconds = 0;
  double cells_per_second = 0;
  std::string left_out_text;  // columns that could not be read, and why
};

// Throws kInvalidArgument (options; negative counts, NaN or infinite values in the real cells),
// kAlreadyExists, kNoSpace, kCancelled and what reading throws. Finished files stay; no other is
// left behind.
SimulateResult simulate(const SimulateOptions& options);

}  // namespace cellfeed::convert
