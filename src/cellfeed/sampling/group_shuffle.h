// for_each_in_group_order: positions of an order whose rows are permuted inside each group of
// consecutive positions.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/sampling/permutation.h"
#include "cellfeed/sampling/strategy.h"

namespace cellfeed::sampling {

// out[i] = sample_at(the position, before the permutation, that lies at begin + i * stride after
// it). Group g holds positions [g * group, (g + 1) * group) of [0, length). REQUIRES: group > 0,
// stride > 0.
template <typename SampleAt>
void for_each_in_group_order(const OrderKey& key, std::int64_t group, std::int64_t length,
                             std::int64_t begin, std::int64_t stride, std::span<std::int64_t> out,
                             SampleAt sample_at) {
  std::int64_t position = begin;
  for (std::size_t i = 0; i < out.size();) {
    const std::int64_t g = position / group;
    const std::int64_t base = g * group;
    const std::int64_t size = std::min(group, length - base);
    const std::int64_t end = base + size;
    if (size == 1) {
      out[i++] = sample_at(position);
      position += stride;
      continue;
    }
    const auto order = cached_permutation(key.seed, key.epoch, Purpose::kGroupOrder,
                                          static_cast<std::uint64_t>(g), size);
    const Permutation& permute = *order;
    for (; i < out.size() && position < end; ++i, position += stride) {
      out[i] = sample_at(base + permute(position - base));
    }
  }
}

}  // namespace cellfeed::sampling
