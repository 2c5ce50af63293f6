// Preprocessing: the passes over all cells that decide what preprocess keeps, and the cells as it
// leaves them. Thread contract: as convert_to_shards.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/convert/preprocess/gene_statistics.h"
#include "cellfeed/convert/preprocess/preprocess.h"
#include "cellfeed/convert/preprocess/processed_store.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::convert {

// What stays. Of each source: its rows, where some are left out, and their totals, where these are
// written.
struct KeptCells {
  std::vector<std::int64_t> genes;  // joined columns, ascending
  std::vector<std::optional<std::vector<std::int64_t>>> rows;
  std::vector<std::vector<double>> totals;
};

class Preprocessing {
 public:
  // Throws kInvalidArgument for options that do not go together.
  explicit Preprocessing(const PreprocessOptions& options);

  // What the inputs say of the result.
  void describe(PreprocessResult& result) const;
  // Reads all cells, once or twice. Throws kInvalidArgument where values are no counts, or were
  // processed before.
  KeptCells choose();
  // Throws kCorruptData for what cannot be of these inputs.
  void require_own(const KeptCells& kept) const;
  // The conversion of what stays. Lifetime: this and `kept` outlive it and what it opens.
  ConvertOptions conversion_of(const KeptCells& kept) const;

 private:
  void require_counts_once() const;
  GeneStatistics gather(const CountLimits* limits = nullptr);
  std::vector<std::int64_t> variable_genes(const GeneStatistics& statistics,
                                           const std::vector<std::int64_t>& genes);
  std::vector<std::int64_t> choose_genes(const GeneStatistics& statistics);
  std::shared_ptr<const collection::Collection> processed(const ProcessingOptions& processing,
                                                          const KeptCells& kept) const;
  ProcessedPart part_of(std::int64_t source, const KeptCells& kept,
                        const std::vector<bool>& stays) const;

  PreprocessOptions options_;
  exec::ThreadPool pool_;
  Sources sources_;
  std::shared_ptr<const collection::CacheShare> cache_;  // of options_.convert.input
  std::vector<std::string> warnings_;
};

// Of shards, what their conversion says.
void describe_shards(const ConvertResult& shards, PreprocessResult& result);

}  // namespace cellfeed::convert
