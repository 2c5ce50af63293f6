// BlockWeightedSampling: draws with p proportional to weight, block_size of them from one block of
// storage.
//
// Thread-safe: immutable but for a guarded cache.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "cellfeed/sampling/alias_table.h"
#include "cellfeed/sampling/sample_set.h"
#include "cellfeed/sampling/strategy.h"
#include "cellfeed/sampling/weighted_order.h"

namespace cellfeed::sampling {

struct BlockWeightedOptions {
  std::int64_t block_size = 8;
  // Draws of an epoch. Default: the number of samples; without replacement, of those with a
  // positive weight.
  std::optional<std::int64_t> total_size = {};
  // false: rounds of sampling_size draws, no sample twice in a round; each round sorted, cut into
  // blocks of block_size draws, and these permuted. Needs O(samples) memory and time a round.
  bool replace = true;
  // Default: min(total_size, samples with a positive weight).
  std::optional<std::int64_t> sampling_size = {};
};

// With replacement: draws [d * block_size, (d + 1) * block_size) come from one block, chosen with p
// proportional to the sum of its weights, each on its own with p proportional to weight inside it.
// So every draw has exactly the marginal weight / sum. Memory: 12 bytes a block plus 8 a sample
// (block_size 1: 12 a sample); O(1) without weights.
class BlockWeightedSampling final : public Strategy {
 public:
  // weights: one per row or one per index; absent = all alike. They are not kept with replacement.
  BlockWeightedSampling(std::int64_t n_rows, std::optional<std::span<const double>> weights,
                        const BlockWeightedOptions& options = {}, Indices indices = {});
  // One weight a sample of the set.
  BlockWeightedSampling(SampleSet set, std::span<const double> weights,
                        const BlockWeightedOptions& options);

  std::string_view name() const override { return "BlockWeightedSampling"; }
  std::int64_t length(const OrderKey&) const override { return total_size_; }
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return set_.n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::int64_t block_size() const override { return block_size_; }
  // Of the tables made at construction.
  std::int64_t bytes() const;

 private:
  void init(std::optional<std::span<const double>> attached, const BlockWeightedOptions& options);
  void make_tables(std::span<const double> weights);
  void single_draws(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                    std::span<std::int64_t> out) const;
  void block_draws(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                   std::span<std::int64_t> out) const;
  void rounds(const OrderKey& key, std::int64_t begin, std::int64_t stride,
              std::span<std::int64_t> out) const;
  std::int64_t member(std::int64_t block, std::uint64_t bits) const;
  std::vector<std::int64_t> draw_round(const OrderKey& key, std::int64_t round) const;

  SampleSet set_;
  std::int64_t block_size_;
  std::int64_t total_size_ = 0;
  std::int64_t round_size_ = 0;  // 0 with replacement
  bool is_uniform_;
  AliasTable blocks_;  // of samples where block_size is 1
  std::vector<std::uint64_t>
      thresholds_;               // 63 bits: share of the block's weight up to and with a sample
  std::vector<double> weights_;  // without replacement only; the largest is in [1, 2)
  mutable RoundCache cache_;
  std::uint64_t fingerprint_ = 0;
};

}  // namespace cellfeed::sampling
