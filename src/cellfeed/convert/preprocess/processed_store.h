// ProcessedStore: rows of another store as preprocess leaves them: some cells, some genes, values
// normalised over all genes and as logarithms. Only what conversions and exports read of a store is
// there. Thread-safe: const. Lifetime: the other store outlives it.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/preprocess/preprocess_options.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

struct ProcessedPart {
  std::optional<std::vector<std::int64_t>> rows;  // that stay, ascending; empty: all
  std::vector<std::int64_t> columns;              // that stay, ascending
  matrix::GeneAxis genes;                         // of those
  // Totals of the rows that stay, where values stay as they are and columns are left out.
  std::vector<double> totals;
  format::Processing recorded;  // of the output
};

std::unique_ptr<format::RowStore> make_processed_store(const format::RowStore& store,
                                                       const ProcessingOptions& processing,
                                                       ProcessedPart part);

}  // namespace cellfeed::convert
