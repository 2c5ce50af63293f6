// BlockShuffling: a keyed permutation of blocks, then of the rows of each fetch group.
#include "cellfeed/sampling/block_shuffling.h"

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/block_order.h"
#include "cellfeed/sampling/group_shuffle.h"

namespace cellfeed::sampling {

BlockShuffling::BlockShuffling(std::int64_t n_rows, std::int64_t block_size, Indices indices,
                               bool drop_last)
    : set_(n_rows, std::move(indices)), block_size_(block_size), drop_last_(drop_last) {
  if (block_size <= 0) throw_invalid("block_size is {}; it must be at least 1", block_size);
  if (drop_last && set_.size() < block_size) {
    throw_invalid("drop_last leaves nothing to sample: {} samples are fewer than block_size {}",
                  set_.size(), block_size);
  }
  Fingerprint print(name());
  set_.add_to(print);
  fingerprint_ = print.add_signed(block_size).add(drop_last).value();
}

std::int64_t BlockShuffling::length(const OrderKey&) const {
  return drop_last_ ? set_.size() - set_.size() % block_size_ : set_.size();
}

void BlockShuffling::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                             std::span<std::int64_t> out) const {
  if (block_size_ == 1) {
    single_samples(key, begin, stride, out);
  } else {
    block_samples(key, begin, stride, out);
  }
}

// The order of single samples is a uniform permutation already; permuting a group again would
// change nothing.
void BlockShuffling::single_samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                    std::span<std::int64_t> out) const {
  const auto order = cached_permutation(key.seed, key.epoch, Purpose::kBlockOrder, 0, set_.size());
  const Permutation& permute = *order;
  for (std::size_t i = 0; i < out.size(); ++i) {
    out[i] = set_[permute(begin + static_cast<std::int64_t>(i) * stride)];
  }
}

void BlockShuffling::block_samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                   std::span<std::int64_t> out) const {
  const std::int64_t n = length(key);
  const BlockOrder block_order(key, 0, n, block_size_);
  const std::int64_t dropped = set_.size() - n;
  // Samples [gap, gap + dropped) are left out in this epoch.
  const std::int64_t gap =
      dropped == 0
          ? n
          : static_cast<std::int64_t>(RandomStream(key.seed, key.epoch, Purpose::kShortBlock)
                                          .bounded(0, static_cast<std::uint64_t>(n) + 1));
  for_each_in_group_order(key, key.fetch_samples, n, begin, stride, out,
                          [&](std::int64_t position) {
                            const std::int64_t sample = block_order(position);
                            return set_[sample < gap ? sample : sample + dropped];
                          });
}

}  // namespace cellfeed::sampling
