// BlockShuffling: a keyed permutation of blocks, then of the rows of each fetch group.
#include "cellfeed/sampling/block_shuffling.h"

#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/group_shuffle.h"

namespace cellfeed::sampling {

BlockShuffling::BlockShuffling(std::int64_t n_rows, std::int64_t block_size, Indices indices,
                               bool drop_last)
    : set_(n_rows, std::move(indices)), block_size_(block_size), drop_last_(drop_last) {
  if (block_size <= 0) throw_invalid("block_size is {}; it must be at least 1", block_size);
  n_full_blocks_ = set_.size() / block_size;
  short_rows_ = set_.size() % block_size;
  if (drop_last && n_full_blocks_ == 0) {
    throw_invalid("drop_last leaves nothing to sample: {} samples are fewer than block_size {}",
                  set_.size(), block_size);
  }
  Fingerprint print(name());
  set_.add_to(print);
  fingerprint_ = print.add_signed(block_size).add(drop_last).value();
}

std::int64_t BlockShuffling::length(const OrderKey&) const {
  return drop_last_ ? set_.size() - short_rows_ : set_.size();
}

void BlockShuffling::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                             std::span<std::int64_t> out) const {
  if (block_size_ == 1) {
    single_samples(key, begin, stride, out);
  } else if (drop_last_ || short_rows_ == 0) {
    without_short_block(key, begin, stride, out);
  } else {
    with_short_block(key, begin, stride, out);
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

void BlockShuffling::without_short_block(const OrderKey& key, std::int64_t begin,
                                         std::int64_t stride, std::span<std::int64_t> out) const {
  const auto order =
      cached_permutation(key.seed, key.epoch, Purpose::kBlockOrder, 0, n_full_blocks_);
  const Permutation& permute = *order;
  const std::int64_t kept = n_full_blocks_ * block_size_;
  // Samples [gap, gap + short_rows) are the ones dropped in this epoch.
  const auto gap = static_cast<std::int64_t>(RandomStream(key.seed, key.epoch, Purpose::kShortBlock)
                                                 .bounded(0, static_cast<std::uint64_t>(kept) + 1));
  for_each_in_group_order(
      key, key.fetch_samples, kept, begin, stride, out, [&](std::int64_t position) {
        const std::int64_t slot = position / block_size_;
        const std::int64_t sample = permute(slot) * block_size_ + (position - slot * block_size_);
        return set_[sample < gap ? sample : sample + short_rows_];
      });
}

void BlockShuffling::with_short_block(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                                      std::span<std::int64_t> out) const {
  // Any slot is as likely for the short block, and the full blocks are permuted on their own:
  // together a uniform permutation of all blocks.
  const std::int64_t short_slot =
      static_cast<std::int64_t>(RandomStream(key.seed, key.epoch, Purpose::kShortBlock)
                                    .bounded(0, static_cast<std::uint64_t>(n_full_blocks_) + 1));
  const std::int64_t short_begin = short_slot * block_size_;
  const std::int64_t first_short_sample = n_full_blocks_ * block_size_;
  const auto order =
      n_full_blocks_ == 0
          ? nullptr
          : cached_permutation(key.seed, key.epoch, Purpose::kBlockOrder, 0, n_full_blocks_);
  for_each_in_group_order(
      key, key.fetch_samples, set_.size(), begin, stride, out, [&](std::int64_t position) {
        if (position >= short_begin) {
          if (position < short_begin + short_rows_) {
            return set_[first_short_sample + (position - short_begin)];
          }
          position -= short_rows_;
        }
        const std::int64_t slot = position / block_size_;
        return set_[(*order)(slot)*block_size_ + (position - slot * block_size_)];
      });
}

}  // namespace cellfeed::sampling
