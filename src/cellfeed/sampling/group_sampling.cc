// A keyed permutation of batches, and one of the members of each group.
#include "cellfeed/sampling/group_sampling.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/fingerprint.h"
#include "cellfeed/sampling/permutation.h"

namespace cellfeed::sampling {

GroupSampling::GroupSampling(std::shared_ptr<const LabelIndex> groups,
                             const GroupSamplingOptions& options)
    : groups_(std::move(groups)), options_(options) {
  fingerprint_ = Fingerprint(name()).add(groups_->fingerprint()).add(options.drop_last).value();
}

const std::vector<std::int64_t>& GroupSampling::batches_before(std::int64_t step) const {
  struct Kept {
    std::uint64_t fingerprint = 0;
    std::int64_t step = 0;
    std::vector<std::int64_t> before;
  };
  thread_local Kept kept;
  if (kept.step == step && kept.fingerprint == fingerprint_) return kept.before;
  kept = {fingerprint_, step, {0}};
  for (std::int64_t g = 0; g < groups_->n_classes(); ++g) {
    const std::int64_t count = groups_->count(g);
    const bool adds_short = count % step != 0 && !options_.drop_last;
    kept.before.push_back(kept.before.back() + count / step + (adds_short ? 1 : 0));
  }
  return kept.before;
}

std::int64_t GroupSampling::length(const OrderKey& key) const {
  const std::int64_t batches = batches_before(key.step_samples).back();
  if (batches > Permutation::kMaxSize / key.step_samples) {
    throw_invalid("{} batches of {} samples are more than 2^62 samples", batches, key.step_samples);
  }
  return batches * key.step_samples;
}

void GroupSampling::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                            std::span<std::int64_t> out) const {
  if (out.empty()) return;
  const std::int64_t step = key.step_samples;
  const std::vector<std::int64_t>& before = batches_before(step);
  const auto batch_order =
      cached_permutation(key.seed, key.epoch, Purpose::kGroupBatch, 0, before.back());
  std::int64_t position = begin;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t slot = position / step;
    const std::int64_t batch = (*batch_order)(slot);
    const std::int64_t g =
        std::upper_bound(before.begin(), before.end(), batch) - before.begin() - 1;
    const std::int64_t count = groups_->count(g);
    const auto order = cached_permutation(key.seed, key.epoch, Purpose::kGroupMember,
                                          static_cast<std::uint64_t>(g), count);
    const std::int64_t first = (batch - before[static_cast<std::size_t>(g)]) * step;
    for (; i < out.size() && position < (slot + 1) * step; ++i, position += stride) {
      const std::int64_t at = first + (position - slot * step);
      const std::int64_t row = groups_->row(g, (*order)(at % count));
      out[i] = at < count ? row : ~row;
    }
  }
}

}  // namespace cellfeed::sampling
