// A draw is uniform over samples or over classes: the mixture needs no table.
#include "cellfeed/sampling/weighted_cell_sampler.h"

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/alias_table.h"
#include "cellfeed/sampling/fingerprint.h"
#include "cellfeed/sampling/weights.h"

namespace cellfeed::sampling {

WeightedCellSampler::WeightedCellSampler(std::shared_ptr<const LabelIndex> labels,
                                         const WeightedCellOptions& options)
    : labels_(std::move(labels)),
      options_(options),
      total_size_(positive_or(options.total_size, labels_->n_labelled(), "total_size")) {
  if (options.curriculum_warmup_epochs < 0) {
    throw_invalid("curriculum_warmup_epochs is {}; it must not be negative",
                  options.curriculum_warmup_epochs);
  }
  if (!options.replacement && total_size_ > labels_->n_labelled()) {
    throw_invalid(
        "total_size {} is more than the {} labelled samples; draw with replacement for more",
        total_size_, labels_->n_labelled());
  }
  fingerprint_ = Fingerprint(name())
                     .add(labels_->fingerprint())
                     .add(options.replacement)
                     .add_signed(options.curriculum_warmup_epochs)
                     .add_signed(total_size_)
                     .value();
}

double WeightedCellSampler::curriculum(std::uint64_t epoch) const {
  const auto warmup = static_cast<std::uint64_t>(options_.curriculum_warmup_epochs);
  if (epoch >= warmup) return 1;
  return static_cast<double>(epoch) / static_cast<double>(warmup);
}

void WeightedCellSampler::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                  std::span<std::int64_t> out) const {
  if (!options_.replacement) {
    const auto order = cache_.get({key.seed, key.epoch, 0}, 2, [&] { return draw_epoch(key); });
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = (*order)[static_cast<std::size_t>(begin + static_cast<std::int64_t>(i) * stride)];
    }
    return;
  }
  const RandomStream choices(key.seed, key.epoch, Purpose::kBlockDraw);
  const RandomStream members(key.seed, key.epoch, Purpose::kMemberDraw);
  const std::uint64_t by_class = to_threshold(curriculum(key.epoch));
  const auto n_classes = static_cast<std::uint64_t>(labels_->n_classes());
  const auto n_labelled = static_cast<std::uint64_t>(labels_->n_labelled());
  const auto member_at = [&](std::size_t i) -> LabelIndex::Member {
    const auto position = static_cast<std::uint64_t>(begin + static_cast<std::int64_t>(i) * stride);
    const TwoWords bits = choices.two_words(position);
    if ((bits.first >> 1) >= by_class) {
      return {LabelIndex::kAnyClass,
              static_cast<std::int64_t>(members.bounded(position, n_labelled))};
    }
    const auto c = static_cast<std::int64_t>(scale_bits(bits.second, n_classes));
    const auto count = static_cast<std::uint64_t>(labels_->count(c));
    return {c, static_cast<std::int64_t>(members.bounded(position, count))};
  };
  labels_->rows_of(out, member_at);
}

std::vector<std::int64_t> WeightedCellSampler::draw_epoch(const OrderKey& key) const {
  const double a = curriculum(key.epoch);
  const auto n = static_cast<double>(labels_->n_labelled());
  const auto k = static_cast<double>(labels_->n_classes());
  std::vector<double> weights;
  for (std::int64_t c = 0; c < labels_->n_classes(); ++c) {
    weights.push_back((1 - a) / n + a / (k * static_cast<double>(labels_->count(c))));
  }
  // Samples are asked for in increasing order, so their class advances with them.
  std::int64_t c = 0;
  std::int64_t end = labels_->count(0);
  auto drawn = draw_without_replacement(RandomStream(key.seed, key.epoch, Purpose::kRoundKeys), 0,
                                        labels_->n_labelled(), total_size_, [&](std::int64_t i) {
                                          while (i >= end) end += labels_->count(++c);
                                          return weights[static_cast<std::size_t>(c)];
                                        });
  for (std::int64_t& sample : drawn) sample = labels_->row(sample);
  return drawn;
}

}  // namespace cellfeed::sampling
