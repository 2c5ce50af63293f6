// WholeShards: each rank reads shards of its own, in true random order, and all ranks equally many
// cells.
//
// Thread-safe: immutable.
#pragma once

#include <vector>

#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

class WholeShards final : public Strategy {
 public:
  // offsets: the first row of each shard, and the number of rows. Rank r of n_ranks gets shards r,
  // r + n_ranks, ...; where that leaves ranks unequal, rows off the end of the longer ones' lists
  // go to the shorter ones. A rank reads its own when it takes positions r, r + n_ranks, ...
  WholeShards(std::vector<std::int64_t> offsets, std::int64_t n_ranks);

  std::string_view name() const override { return "WholeShards"; }
  std::int64_t length(const OrderKey&) const override { return offsets_.back(); }
  void samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
               std::span<std::int64_t> out) const override;
  std::int64_t n_rows() const override { return offsets_.back(); }
  std::uint64_t fingerprint() const override { return fingerprint_; }

 private:
  // Rows [first, first + n) of the collection.
  struct Part {
    std::int64_t first, n;
  };
  struct Share {
    std::vector<Part> parts;
    std::vector<std::int64_t> ends;  // how many rows the parts hold up to each one's end
    std::int64_t size() const { return ends.empty() ? 0 : ends.back(); }
    void add(Part part);
    // The last n rows, or those of the last part where it has fewer.
    Part take(std::int64_t n);
    std::int64_t row(std::int64_t place) const;
  };

  std::int64_t target_size(std::int64_t rank) const;
  void level();

  std::vector<std::int64_t> offsets_;
  std::vector<Share> shares_;
  std::uint64_t fingerprint_;
};

}  // namespace cellfeed::sampling
