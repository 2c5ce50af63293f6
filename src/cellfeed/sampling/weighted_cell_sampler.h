// WeightedCellSampler: a curriculum from uniform draws to draws inverse to class frequency.
// Thread-safe: immutable but for a guarded cache.
#pragma once

#include <memory>
#include <optional>

#include "cellfeed/sampling/label_index.h"
#include "cellfeed/sampling/strategy.h"
#include "cellfeed/sampling/weighted_order.h"

namespace cellfeed::sampling {

struct WeightedCellOptions {
  // False: each sample once, the likelier ones earlier; needs O(samples) memory.
  bool replacement = true;
  // Epochs until full weight: a = min(1, epoch / curriculum_warmup_epochs); 0 = full weight at
  // once.
  std::int64_t curriculum_warmup_epochs = 0;
  std::optional<std::int64_t> total_size = {};  // default: the labelled samples
};

// Every draw has p(sample) = (1 - a) / N + a / (K * count of its class), over N labelled samples in
// K classes that have members; a is rounded to 2^-63. Samples without a label are never drawn.
class WeightedCellSampler final : public Strategy {
 public:
  explicit WeightedCellSampler(std::shared_ptr<const LabelIndex> labels,
                               const WeightedCellOptions& options = {});

  std::string_view name() const override { return "WeightedCellSampler"; }
  std::int64_t length(const OrderKey&) const override { return total_size_; }
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return labels_->n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  // Weight of the inverse frequencies in an epoch, in [0, 1].
  double curriculum(std::uint64_t epoch) const;

 private:
  std::vector<std::int64_t> draw_epoch(const OrderKey& key) const;

  std::shared_ptr<const LabelIndex> labels_;
  WeightedCellOptions options_;
  std::int64_t total_size_;
  mutable RoundCache cache_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
