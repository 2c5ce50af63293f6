#include "cellfeed/transform/rank_places.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <numeric>
#include <vector>

#include "cellfeed/transform/simd/sort_places.h"

namespace cellfeed::transform {
namespace {

// Below, vectors have nothing to win.
constexpr std::size_t kFewEntries = 16;

void sort_by_wide_keys(std::span<const float> values, std::span<std::uint32_t> places) {
  static thread_local const hwy::Sorter sorter;
  std::vector<std::uint64_t> keys(values.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = std::uint64_t{~std::bit_cast<std::uint32_t>(values[i])} << 32 | i;
  sorter(keys.data(), keys.size(), hwy::SortAscending());
  for (std::size_t i = 0; i < keys.size(); ++i) places[i] = static_cast<std::uint32_t>(keys[i]);
}

}  // namespace

void rank_places(std::span<const float> values, std::span<std::uint32_t> places) {
  if (values.size() > kMostKeyPlaces) return sort_by_wide_keys(values, places);
  if (values.size() >= kFewEntries) return sort_places(values, places);
  std::iota(places.begin(), places.end(), std::uint32_t{0});
  std::ranges::sort(places, ComesFirst{values.data()});
}

}  // namespace cellfeed::transform
