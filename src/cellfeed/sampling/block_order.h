// BlockOrder: positions of [0, n) after cutting it into blocks and permuting these; the short block
// moves too.
//
// Thread-safe: immutable.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/sampling/permutation.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

class BlockOrder {
 public:
  // REQUIRES: n > 0, block_size > 0.
  BlockOrder(const OrderKey& key, std::uint64_t substream, std::int64_t n, std::int64_t block_size)
      : block_size_(block_size), n_full_(n / block_size), short_rows_(n % block_size) {
    if (n_full_ > 0) {
      order_ = cached_permutation(key.seed, key.epoch, Purpose::kBlockOrder, substream, n_full_);
    }
    // Any slot is as likely for the short block, and the full blocks are permuted on their own:
    // together a uniform permutation of all blocks.
    short_begin_ =
        short_rows_ == 0
            ? n
            : block_size * static_cast<std::int64_t>(
                               RandomStream(key.seed, key.epoch, Purpose::kShortBlock)
                                   .bounded(substream, static_cast<std::uint64_t>(n_full_) + 1));
  }

  // REQUIRES: position in [0, n).
  std::int64_t operator()(std::int64_t position) const {
    if (position >= short_begin_) {
      if (position < short_begin_ + short_rows_) {
        return n_full_ * block_size_ + (position - short_begin_);
      }
      position -= short_rows_;
    }
    const std::int64_t slot = position / block_size_;
    return (*order_)(slot)*block_size_ + (position - slot * block_size_);
  }

 private:
  std::int64_t block_size_;
  std::int64_t n_full_;
  std::int64_t short_rows_;
  std::int64_t short_begin_;
  std::shared_ptr<const Permutation> order_;
};

}  // namespace cellfeed::sampling
