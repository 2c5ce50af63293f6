// What a plan will do, estimated without reading data: label entropy of its batches, shape of its
// reads.
//
// Monte Carlo over whole batches and fetch groups chosen with a fixed seed, so that the same plan
// gives the same numbers.
#pragma once

#include <cstdint>
#include <functional>

#include "cellfeed/sampling/plan.h"

namespace cellfeed::sampling {

// Shannon entropy of the labels of a batch, in bits, on average (plug-in estimate, as
// loader.stats() has it).
struct LabelEntropy {
  double batch_bits = 0;
  // Of batches of the same size whose draws are spread over the whole order.
  double random_bits = 0;
  std::int64_t batches = 0;  // averaged over; 0 where no drawn sample has a label
};

// label_of(row): a code, or -1 for a missing label, which counts in no entropy.
LabelEntropy expected_label_entropy(const Plan& plan,
                                    const std::function<std::int32_t(std::int64_t)>& label_of,
                                    std::int64_t max_batches = 64);

// Averages over the fetch groups of one rank.
struct FetchShape {
  double rows = 0;           // rows of the batches
  double distinct_rows = 0;  // rows that are read
  double runs = 0;           // stretches of consecutive rows
  // Rows of all chunks touched, where storage decodes `rows_per_chunk` rows at a time.
  double chunk_rows = 0;
  std::int64_t fetches = 0;  // averaged over
};

// Throws kInvalidArgument for rows_per_chunk below 1.
FetchShape expected_fetch_shape(const Plan& plan, std::int64_t rows_per_chunk = 1,
                                std::int64_t max_fetches = 16);

}  // namespace cellfeed::sampling
