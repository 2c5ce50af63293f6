// Tuning: how fast this machine loads a collection at each block size, against how diverse the
// batches are. Reads for a few seconds. Not thread-safe in time: run it alone, or the rates mean
// nothing.
#pragma once

#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"

namespace cellfeed::loader {

struct TuningOptions {
  std::int64_t batch_size = 1024;
  std::string label;               // obs column for the entropy; empty: rate alone decides
  double wanted_entropy = 0.98;    // share of true random's label entropy that batches must keep
  double seconds_per_point = 0.4;  // of reading for each setting
  std::int64_t memory_budget = std::int64_t{2} << 30;
  int threads = 0;  // 0: as many as help
  std::stop_token stop;
};

struct TuningPoint {
  std::int64_t block_size = 0;  // 0 = storage order
  std::int64_t fetch_factor = 0;
  int threads = 0;
  double cells_per_second = 0;
  double megabytes_per_second = 0;  // read from the source
  double bytes_read_per_used = 0;
  double entropy_bits = 0;  // of the labels of a batch; 0 without labels
};

struct TuningResult {
  std::vector<TuningPoint> points;
  std::size_t best = 0;  // the fastest that keeps the diversity
  bool has_labels = false;
  double random_entropy_bits = 0;
  std::int64_t memory_budget = 0;  // that the best setting needs
};

// Throws kCancelled when stopped, kInvalidArgument for an empty collection.
TuningResult tune(std::shared_ptr<const collection::Collection> cells,
                  const TuningOptions& options);

}  // namespace cellfeed::loader
