// Alias table over blocks, thresholds inside them.
#include "cellfeed/sampling/block_weighted_sampling.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/attached_values.h"
#include "cellfeed/sampling/block_order.h"
#include "cellfeed/sampling/group_shuffle.h"
#include "cellfeed/sampling/weights.h"

namespace cellfeed::sampling {
namespace {

constexpr std::uint64_t kOne = std::uint64_t{1} << 63;

}  // namespace

BlockWeightedSampling::BlockWeightedSampling(std::int64_t n_rows,
                                             std::optional<std::span<const double>> weights,
                                             const BlockWeightedOptions& options, Indices indices)
    : set_(n_rows, indices),
      block_size_(positive_or(options.block_size, 0, "block_size")),
      is_uniform_(!weights) {
  std::vector<double> storage;
  if (weights) weights = attach_values(n_rows, indices, *weights, "weights", storage);
  init(weights, options);
}

BlockWeightedSampling::BlockWeightedSampling(SampleSet set, std::span<const double> weights,
                                             const BlockWeightedOptions& options)
    : set_(std::move(set)),
      block_size_(positive_or(options.block_size, 0, "block_size")),
      is_uniform_(false) {
  init(weights, options);
}

void BlockWeightedSampling::init(std::optional<std::span<const double>> weights,
                                 const BlockWeightedOptions& options) {
  Fingerprint print(name());
  set_.add_to(print);
  std::int64_t n_drawable = set_.size();
  if (weights) {
    n_drawable = check_weights(*weights);
    print.add_all(*weights);
  }
  total_size_ =
      positive_or(options.total_size, options.replace ? set_.size() : n_drawable, "total_size");
  if (options.replace) {
    if (options.sampling_size) {
      throw_invalid(
          "sampling_size is for draws without replacement; leave it out or set replace to false");
    }
    if (weights) make_tables(*weights);
  } else {
    round_size_ = round_size(options.sampling_size, total_size_, n_drawable);
    if (weights) weights_ = scaled_for_keys(*weights);
  }
  fingerprint_ = print.add_signed(block_size_)
                     .add_signed(total_size_)
                     .add_signed(round_size_)
                     .add(is_uniform_)
                     .value();
}

void BlockWeightedSampling::make_tables(std::span<const double> weights) {
  if (block_size_ == 1) {
    blocks_ = AliasTable(weights);
    return;
  }
  thresholds_.resize(weights.size());
  const auto block_size = static_cast<std::size_t>(block_size_);
  std::vector<double> sums;
  sums.reserve(weights.size() / block_size + 1);
  for (std::size_t begin = 0; begin < weights.size(); begin += block_size) {
    const auto block = weights.subspan(begin, std::min(block_size, weights.size() - begin));
    const double sum = sum_of(block);
    sums.push_back(sum);
    double before = 0;
    std::size_t end_of_positive = 0;
    for (std::size_t i = 0; i < block.size(); ++i) {
      if (block[i] > 0) end_of_positive = i;
      before += block[i];
      thresholds_[begin + i] = sum > 0 ? to_threshold(before / sum) : 0;
    }
    // The last sample that can be drawn takes what rounding left.
    for (std::size_t i = end_of_positive; i < block.size(); ++i) thresholds_[begin + i] = kOne;
  }
  blocks_ = AliasTable(sums);
}

std::int64_t BlockWeightedSampling::bytes() const {
  return blocks_.bytes() + static_cast<std::int64_t>((thresholds_.size() + weights_.size()) * 8);
}

void BlockWeightedSampling::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                    std::span<std::int64_t> out) const {
  if (round_size_ > 0) {
    rounds(key, begin, stride, out);
  } else if (block_size_ == 1) {
    single_draws(key, begin, stride, out);
  } else {
    block_draws(key, begin, stride, out);
  }
}

// Draws are independent already: permuting a group would change nothing.
void BlockWeightedSampling::single_draws(const OrderKey& key, std::int64_t begin,
                                         std::int64_t stride, std::span<std::int64_t> out) const {
  const RandomStream stream(key.seed, key.epoch, Purpose::kBlockDraw);
  const auto position = [&](std::size_t i) {
    return static_cast<std::uint64_t>(begin + static_cast<std::int64_t>(i) * stride);
  };
  if (is_uniform_) {
    for (std::size_t i = 0; i < out.size(); ++i) {
      out[i] = set_[static_cast<std::int64_t>(
          stream.bounded(position(i), static_cast<std::uint64_t>(set_.size())))];
    }
    return;
  }
  // Cells of a large table are far apart: ask for several before the first is needed.
  constexpr std::size_t kAhead = 16;
  std::array<TwoWords, kAhead> bits;
  for (std::size_t first = 0; first < out.size(); first += kAhead) {
    const std::size_t count = std::min(kAhead, out.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      bits[i] = stream.two_words(position(first + i));
      blocks_.prefetch(bits[i].first);
    }
    for (std::size_t i = 0; i < count; ++i) {
      out[first + i] = set_[blocks_.draw(bits[i].first, bits[i].second)];
    }
  }
}

void BlockWeightedSampling::block_draws(const OrderKey& key, std::int64_t begin,
                                        std::int64_t stride, std::span<std::int64_t> out) const {
  const RandomStream blocks(key.seed, key.epoch, Purpose::kBlockDraw);
  const RandomStream members(key.seed, key.epoch, Purpose::kMemberDraw);
  for_each_in_group_order(
      key, key.fetch_samples, total_size_, begin, stride, out, [&](std::int64_t position) {
        const auto draw = static_cast<std::uint64_t>(position / block_size_);
        const auto at = static_cast<std::uint64_t>(position);
        if (is_uniform_) {
          const auto any = static_cast<std::int64_t>(
              blocks.bounded(draw, static_cast<std::uint64_t>(set_.size())));
          const std::int64_t first = any / block_size_ * block_size_;
          const std::int64_t size = std::min(block_size_, set_.size() - first);
          return set_[first + static_cast<std::int64_t>(
                                  members.bounded(at, static_cast<std::uint64_t>(size)))];
        }
        const TwoWords bits = blocks.two_words(draw);
        return set_[member(blocks_.draw(bits.first, bits.second), members.bits(at))];
      });
}

// The first threshold of the block above 63 random bits; the last one always is. Without branches,
// which no processor could predict.
std::int64_t BlockWeightedSampling::member(std::int64_t block, std::uint64_t bits) const {
  const std::uint64_t wanted = bits >> 1;
  std::int64_t at = block * block_size_;
  for (std::int64_t left = std::min(block_size_, set_.size() - at); left > 1;) {
    const std::int64_t half = left / 2;
    at += thresholds_[static_cast<std::size_t>(at + half - 1)] <= wanted ? half : 0;
    left -= half;
  }
  return at;
}

std::vector<std::int64_t> BlockWeightedSampling::draw_round(const OrderKey& key,
                                                            std::int64_t round) const {
  const std::int64_t count = std::min(round_size_, total_size_ - round * round_size_);
  const auto substream = static_cast<std::uint64_t>(round);
  auto drawn = draw_without_replacement(
      RandomStream(key.seed, key.epoch, Purpose::kRoundKeys), substream, set_.size(), count,
      [&](std::int64_t i) { return is_uniform_ ? 1.0 : weights_[static_cast<std::size_t>(i)]; });
  std::sort(drawn.begin(), drawn.end());
  const BlockOrder block_order(key, substream, count, block_size_);
  std::vector<std::int64_t> rows(drawn.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    rows[i] = set_[drawn[static_cast<std::size_t>(block_order(static_cast<std::int64_t>(i)))]];
  }
  return rows;
}

void BlockWeightedSampling::rounds(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                   std::span<std::int64_t> out) const {
  RoundCache::Round drawn;
  std::int64_t drawn_round = -1;
  const std::int64_t rounds_of_a_group = std::min(key.fetch_samples, total_size_) / round_size_ + 2;
  for_each_in_group_order(
      key, key.fetch_samples, total_size_, begin, stride, out, [&](std::int64_t position) {
        const std::int64_t round = position / round_size_;
        if (round != drawn_round) {
          drawn = cache_.get({key.seed, key.epoch, static_cast<std::uint64_t>(round)},
                             rounds_of_a_group, [&] { return draw_round(key, round); });
          drawn_round = round;
        }
        return (*drawn)[static_cast<std::size_t>(position - round * round_size_)];
      });
}

}  // namespace cellfeed::sampling
