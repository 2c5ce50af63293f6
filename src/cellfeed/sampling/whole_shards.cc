// WholeShards: shards dealt in turn, levelled, then a keyed permutation of each rank's rows.
#include "cellfeed/sampling/whole_shards.h"

#include <algorithm>
#include <utility>

#include "cellfeed/base/error.h"
#include "cellfeed/sampling/fingerprint.h"
#include "cellfeed/sampling/permutation.h"

namespace cellfeed::sampling {

void WholeShards::Share::add(Part part) {
  if (part.n == 0) return;
  parts.push_back(part);
  ends.push_back(size() + part.n);
}

WholeShards::Part WholeShards::Share::take(std::int64_t n) {
  Part& last = parts.back();
  const std::int64_t taken = std::min(n, last.n);
  last.n -= taken;
  ends.back() -= taken;
  const Part part{last.first + last.n, taken};
  if (last.n == 0) {
    parts.pop_back();
    ends.pop_back();
  }
  return part;
}

std::int64_t WholeShards::Share::row(std::int64_t place) const {
  const auto at =
      static_cast<std::size_t>(std::upper_bound(ends.begin(), ends.end(), place) - ends.begin());
  return parts[at].first + parts[at].n - (ends[at] - place);
}

WholeShards::WholeShards(std::vector<std::int64_t> offsets, std::int64_t n_ranks)
    : offsets_(std::move(offsets)) {
  constexpr std::int64_t kMostRanks = 1 << 20;
  if (n_ranks < 1 || n_ranks > kMostRanks)
    throw_invalid("n_ranks is {}; it must be from 1 to {}", n_ranks, kMostRanks);
  if (offsets_.size() < 2 || offsets_.front() != 0 || offsets_.back() <= 0 ||
      !std::is_sorted(offsets_.begin(), offsets_.end()))
    throw_invalid("shard offsets must begin with 0, not fall, and end with the number of samples");
  shares_.resize(static_cast<std::size_t>(n_ranks));
  for (std::size_t shard = 0; shard + 1 < offsets_.size(); ++shard)
    shares_[shard % shares_.size()].add({offsets_[shard], offsets_[shard + 1] - offsets_[shard]});
  level();
  Fingerprint print(name());
  print.add_signed(n_ranks);
  for (const std::int64_t offset : offsets_) print.add_signed(offset);
  fingerprint_ = print.value();
}

// Positions r, r + n_ranks, ... below the length.
std::int64_t WholeShards::target_size(std::int64_t rank) const {
  const auto n_ranks = static_cast<std::int64_t>(shares_.size());
  return offsets_.back() / n_ranks + (rank < offsets_.back() % n_ranks ? 1 : 0);
}

void WholeShards::level() {
  std::vector<Part> surplus;
  for (std::size_t r = 0; r < shares_.size(); ++r)
    while (shares_[r].size() > target_size(static_cast<std::int64_t>(r)))
      surplus.push_back(
          shares_[r].take(shares_[r].size() - target_size(static_cast<std::int64_t>(r))));
  for (std::size_t r = 0; r < shares_.size(); ++r)
    while (shares_[r].size() < target_size(static_cast<std::int64_t>(r))) {
      Part& part = surplus.back();
      const std::int64_t given =
          std::min(part.n, target_size(static_cast<std::int64_t>(r)) - shares_[r].size());
      shares_[r].add({part.first, given});
      part.first += given;
      part.n -= given;
      if (part.n == 0) surplus.pop_back();
    }
}

void WholeShards::samples(const OrderKey& key, std::int64_t begin, std::int64_t stride,
                          std::span<std::int64_t> out) const {
  const auto n_ranks = static_cast<std::int64_t>(shares_.size());
  std::vector<std::shared_ptr<const Permutation>> orders(shares_.size());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const std::int64_t position = begin + static_cast<std::int64_t>(i) * stride;
    const auto rank = static_cast<std::size_t>(position % n_ranks);
    const Share& share = shares_[rank];
    if (orders[rank] == nullptr)
      orders[rank] =
          cached_permutation(key.seed, key.epoch, Purpose::kBlockOrder, rank, share.size());
    out[i] = share.row((*orders[rank])(position / n_ranks));
  }
}

}  // namespace cellfeed::sampling
