// GroupSampling: every batch holds members of one group (donor, perturbation, class) only.
// Thread-safe: immutable.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/sampling/label_index.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

struct GroupSamplingOptions {
  // A group of m members fills ceil(m / step) batches of step = key.step_samples (over all ranks);
  // the last is filled up by repeating members of the group, as ~row. true: the members that fill
  // no batch are dropped, others each epoch.
  bool drop_last = false;
};

// An epoch draws every member once: the members of each group are permuted and cut into batches,
// and the batches of all groups are permuted. With partition interleave all ranks hold the same
// group in a step; with partition group each rank's batch holds one group. A plan that continues
// with other sizes is refused where batches would mix two groups.
class GroupSampling final : public Strategy {
 public:
  explicit GroupSampling(std::shared_ptr<const LabelIndex> groups,
                         const GroupSamplingOptions& options = {});

  std::string_view name() const override { return "GroupSampling"; }
  std::int64_t length(const OrderKey& key) const override;
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return groups_->n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  bool groups_steps() const override { return true; }

 private:
  // Batches before group g at a step size; one more at the end. O(groups), kept by each thread for
  // the last one.
  const std::vector<std::int64_t>& batches_before(std::int64_t step) const;

  std::shared_ptr<const LabelIndex> groups_;
  GroupSamplingOptions options_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
