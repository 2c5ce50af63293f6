// GeneStatistics: what one pass over all cells says of them and of each gene: which cells pass the
// filters, in how many a gene is, and its mean and variance in each batch.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/convert/progress.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::convert {

// Sums over the cells of a batch, of the values that highly variable genes are found in.
struct BatchSums {
  std::string name;  // the label; empty without a batch_key
  std::int64_t n_cells = 0;
  std::vector<double> sums, squares;  // a joined gene each
};

struct GeneStatistics {
  std::int64_t n_cells = 0;  // that pass
  // Of each source, its rows that pass; empty: without a filter, all.
  std::vector<std::optional<std::vector<std::int64_t>>> kept_rows;
  // Of each source, the totals of its rows that pass, over all its genes; where they were asked
  // for.
  std::vector<std::vector<double>> totals;
  std::vector<std::int64_t>
      n_cells_with_gene;           // cells that pass with a value above 0; joined genes
  std::vector<BatchSums> batches;  // in the order of their labels; of n_top_genes only
};

// By the name of a batch: what larger values of each joined gene count as.
using CountLimits = std::map<std::string, std::vector<double>>;

struct StatisticsOptions {
  bool keeps_totals = false;
  bool was_log1p = false;               // the values are logarithms already
  const CountLimits* limits = nullptr;  // of the sums; null: none
  std::int64_t memory_budget = 0;
  ProgressCallback progress{};
  std::stop_token stop{};
};

// Checks every value on the way: throws kInvalidArgument naming file, cell and gene for one that is
// NaN, infinite or negative, and for fractions where counts are to be normalised (unless forced);
// for cells without a batch; where no gene has the mitochondrial prefix; where no cell passes.
// Reads every cell once. The result does not depend on the threads. REQUIRES: rows can be read.
GeneStatistics gather_statistics(const Sources& sources, const ProcessingOptions& processing,
                                 exec::ThreadPool& pool, const StatisticsOptions& options);

}  // namespace cellfeed::convert
