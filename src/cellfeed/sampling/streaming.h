// Streaming: storage order; with shuffle, rows are permuted inside each fetch group or buffer.
// Thread-safe: immutable.
#pragma once

#include "cellfeed/sampling/sample_set.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

class Streaming final : public Strategy {
 public:
  // shuffle_buffer: consecutive positions permuted together; 0 = the fetch group. Above 0 it
  // implies shuffle.
  explicit Streaming(std::int64_t n_rows, Indices indices = {}, bool shuffle = false,
                     std::int64_t shuffle_buffer = 0);

  std::string_view name() const override { return "Streaming"; }
  std::int64_t length(const OrderKey& key) const override;
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return set_.n_rows(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }
  std::int64_t block_size() const override { return set_.size(); }

 private:
  SampleSet set_;
  bool shuffle_;
  std::int64_t shuffle_buffer_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
