// BlockShuffling: blocks of consecutive samples in random order, rows permuted inside each fetch
// group.
//
// Thread-safe: immutable.
#pragma once

#include "cellfeed/sampling/sample_set.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

class BlockShuffling final : public Strategy {
 public:
  // block_size 1 is true random. A block_size above the number of samples makes one short block.
  // drop_last leaves out n mod block_size consecutive samples, others each epoch, instead of making
  // a short block.
  explicit BlockShuffling(std::int64_t n_rows, std::int64_t block_size = 8, Indices indices = {},
                          bool drop_last = false);

  std::string_view name() const override { return "BlockShuffling"; }
  std::int64_t length(const OrderKey& key) const override;
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return set_.n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::int64_t block_size() const override { return block_size_; }

 private:
  void single_samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                      std::span<std::int64_t> out) const;
  void block_samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                     std::span<std::int64_t> out) const;

  SampleSet set_;
  std::int64_t block_size_;
  bool drop_last_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
