// Alias table over classes, a run of members inside.
#include "cellfeed/sampling/class_balanced_sampling.h"

#include <cmath>
#include <utility>
#include <vector>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/group_shuffle.h"
#include "cellfeed/sampling/weights.h"

namespace cellfeed::sampling {
namespace {

// In a form that neither overflows nor vanishes for any smoothing; the rest of an epoch's draws
// depends on the ratios only.
std::vector<double> class_weights(const LabelIndex& labels, double smoothing) {
  const double mean_count =
      static_cast<double>(labels.n_labelled()) / static_cast<double>(labels.n_classes());
  std::vector<double> weights(static_cast<std::size_t>(labels.n_classes()));
  for (std::int64_t c = 0; c < labels.n_classes(); ++c) {
    const double share = static_cast<double>(labels.count(c)) / mean_count;
    weights[static_cast<std::size_t>(c)] = share / ((share + smoothing) / (1 + smoothing));
  }
  return weights;
}

}  // namespace

ClassBalancedSampling::ClassBalancedSampling(std::shared_ptr<const LabelIndex> labels,
                                             const ClassBalancedOptions& options)
    : labels_(std::move(labels)),
      block_size_(positive_or(options.block_size, 0, "block_size")),
      total_size_(positive_or(options.total_size, labels_->n_labelled(), "total_size")) {
  if (!(options.smoothing >= 0) || std::isinf(options.smoothing)) {
    throw_invalid("smoothing is {}; it must be finite and not negative", options.smoothing);
  }
  const std::vector<double> weights = class_weights(*labels_, options.smoothing);
  Fingerprint print(name());
  print.add(labels_->fingerprint())
      .add_signed(block_size_)
      .add_signed(total_size_)
      .add_real(options.smoothing);
  if (options.replace) {
    if (options.sampling_size) {
      throw_invalid(
          "sampling_size is for draws without replacement; leave it out or set replace to false");
    }
    classes_ = AliasTable(weights);
  } else {
    std::vector<double> of_sample = weights;
    for (std::int64_t c = 0; c < labels_->n_classes(); ++c) {
      of_sample[static_cast<std::size_t>(c)] /= static_cast<double>(labels_->count(c));
    }
    without_replacement_ = std::make_unique<const BlockWeightedSampling>(
        labels_->samples(), labels_->per_sample(of_sample),
        BlockWeightedOptions{.block_size = block_size_,
                             .total_size = total_size_,
                             .replace = false,
                             .sampling_size = options.sampling_size});
    print.add(without_replacement_->fingerprint());
  }
  fingerprint_ = print.value();
}

void ClassBalancedSampling::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                    std::span<std::int64_t> out) const {
  if (without_replacement_ != nullptr) {
    without_replacement_->samples(key, begin, stride, out);
    return;
  }
  const RandomStream classes(key.seed, key.epoch, Purpose::kBlockDraw);
  const RandomStream members(key.seed, key.epoch, Purpose::kMemberDraw);
  const auto member_at = [&](std::int64_t position) -> LabelIndex::Member {
    const std::int64_t draw = position / block_size_;
    const TwoWords bits = classes.two_words(static_cast<std::uint64_t>(draw));
    const std::int64_t c = classes_.draw(bits.first, bits.second);
    const std::int64_t count = labels_->count(c);
    std::int64_t member =
        static_cast<std::int64_t>(
            members.bounded(static_cast<std::uint64_t>(draw), static_cast<std::uint64_t>(count))) +
        (position - draw * block_size_);
    if (member >= count) member %= count;
    return {c, member};
  };
  if (block_size_ == 1) {
    // Draws are independent already: permuting a group would change nothing.
    labels_->rows_of(out, [&](std::size_t i) {
      return member_at(begin + static_cast<std::int64_t>(i) * stride);
    });
    return;
  }
  for_each_in_group_order(key, key.fetch_samples, total_size_, begin, stride, out,
                          [&](std::int64_t position) { return labels_->row(member_at(position)); });
}

}  // namespace cellfeed::sampling
