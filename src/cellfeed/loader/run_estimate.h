// What a run will do, said without reading expression: batches per rank, bytes read against used,
// label entropy, memory. Thread-safe: pure.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/sampling/plan.h"

namespace cellfeed::loader {

struct RunSettings {
  sampling::PlanOptions plan;
  std::int64_t block_size = 8;  // 0 = storage order
  std::string label;            // obs column for the entropy; empty: none
  std::int64_t memory_budget = std::int64_t{2} << 30;
  std::uint64_t seed = 0;
};

struct Advice {
  std::string warning;
  std::string remedy;
};

struct RunEstimate {
  std::int64_t cells = 0;
  std::int64_t batches_per_rank = 0;
  std::int64_t last_batch_rows = 0;
  std::int64_t padded = 0;       // repeated samples over all ranks
  std::int64_t dropped = 0;      // samples left out over all ranks
  double bytes_used = 0;         // of one epoch on one rank: the rows asked for, as stored
  double bytes_read = 0;         // with the rest of the chunks they lie in
  double fetch_rows = 0;         // rows of a fetch group on one rank
  double fetch_runs = 0;         // stretches of consecutive rows in it
  std::int64_t fetch_bytes = 0;  // memory of one fetch group while it is read
  // One CSR batch of float32, on average; 0 where non-zeros are not known.
  std::int64_t batch_bytes = 0;
  bool has_labels = false;
  double entropy_bits = 0;         // of the labels of a batch, on average
  double random_entropy_bits = 0;  // of batches drawn at random from the whole order
  std::vector<Advice> advice;
};

// Throws what Plan and obs_column throw.
RunEstimate estimate_run(const collection::Collection& cells, const RunSettings& settings);

// Label codes of every row of a categorical column, -1 = missing. Throws kInvalidArgument for a
// column of numbers.
std::vector<std::int32_t> label_codes(const collection::Collection& cells,
                                      const std::string& column);

// The strategy that a block size stands for: 0 = Streaming, else BlockShuffling.
std::shared_ptr<const sampling::Strategy> make_block_strategy(std::int64_t n_rows,
                                                              std::int64_t block_size);

}  // namespace cellfeed::loader
