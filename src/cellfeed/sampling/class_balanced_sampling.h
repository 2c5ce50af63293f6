// ClassBalancedSampling: a class first, then block_size of its members that are neighbours in
// storage.
//
// Thread-safe: immutable but for a guarded cache.
#pragma once

#include <memory>
#include <optional>

#include "cellfeed/sampling/alias_table.h"
#include "cellfeed/sampling/block_weighted_sampling.h"
#include "cellfeed/sampling/label_index.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

struct ClassBalancedOptions {
  std::int64_t block_size = 8;
  std::optional<std::int64_t> total_size = {};  // default: the labelled samples
  // p(class) is proportional to count / (count + smoothing * N / K): 0 balances perfectly, large
  // leaves frequencies as they are. N labelled samples in K classes that have members. Finite.
  double smoothing = 0;
  // False: see BlockWeightedOptions, with the weight p(class) / count for every sample.
  bool replace = true;
  std::optional<std::int64_t> sampling_size = {};
};

// With replacement: draws [d * block_size, (d + 1) * block_size) are members s, s + 1, ... (modulo
// count) of one class, s uniform. So every draw has exactly the marginal p(class) / count. Samples
// without a label are never drawn.
class ClassBalancedSampling final : public Strategy {
 public:
  ClassBalancedSampling(std::shared_ptr<const LabelIndex> labels,
                        const ClassBalancedOptions& options = {});

  std::string_view name() const override { return "ClassBalancedSampling"; }
  std::int64_t length(const OrderKey&) const override { return total_size_; }
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return labels_->n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::int64_t block_size() const override { return block_size_; }

 private:
  std::shared_ptr<const LabelIndex> labels_;
  std::int64_t block_size_;
  std::int64_t total_size_;
  AliasTable classes_;
  std::unique_ptr<const BlockWeightedSampling> without_replacement_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
