#include "cellfeed/transform/rank_places.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

#include "cellfeed/transform/simd/sort_places.h"

namespace cellfeed::transform {
namespace {

// Below, vectors have nothing to win.
constexpr std::size_t kFewEntries = 16;
// Steps back, a place, of what keys left unsorted; beyond, comparing is quicker.
constexpr std::size_t kStepsBack = 4;

void sort_by_comparing(std::span<const float> values, std::span<std::uint32_t> places) {
  std::stable_sort(places.begin(), places.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
}

void take_values(std::span<const float> values, std::span<const std::uint32_t> places,
                 std::span<float> ranked) {
  for (std::size_t i = 0; i < places.size(); ++i) ranked[i] = values[places[i]];
}

// Where the next value is that is larger than the one before it, or the end.
std::size_t next_rise(std::span<const float> ranked, std::size_t i) {
  constexpr std::size_t kBlock = 16;  // that compilers look at by vectors
  for (; i + kBlock <= ranked.size(); i += kBlock) {
    int n_rises = 0;
    for (std::size_t k = i; k < i + kBlock; ++k) n_rises += ranked[k] > ranked[k - 1];
    if (n_rises != 0) break;
  }
  while (i < ranked.size() && ranked[i] <= ranked[i - 1]) ++i;
  return i;
}

// Sorts what is nearly sorted, stable; false where it took too many steps, and then some is not.
bool insert_in_order(std::span<std::uint32_t> places, std::span<float> ranked) {
  std::size_t steps_left = kStepsBack * places.size();
  for (std::size_t i = next_rise(ranked, 1); i < places.size(); i = next_rise(ranked, i + 1)) {
    const float value = ranked[i];
    const std::uint32_t place = places[i];
    std::size_t at = i;
    for (; at > 0 && ranked[at - 1] < value; --at) {
      ranked[at] = ranked[at - 1];
      places[at] = places[at - 1];
    }
    ranked[at] = value;
    places[at] = place;
    if (i - at > steps_left) return false;
    steps_left -= i - at;
  }
  return true;
}

void sort_by_wide_keys(std::span<const float> values, std::span<std::uint32_t> places) {
  static thread_local const hwy::Sorter sorter;
  std::vector<std::uint64_t> keys(values.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = std::uint64_t{~std::bit_cast<std::uint32_t>(values[i])} << 32 | i;
  sorter(keys.data(), keys.size(), hwy::SortAscending());
  for (std::size_t i = 0; i < keys.size(); ++i) places[i] = static_cast<std::uint32_t>(keys[i]);
}

}  // namespace

void rank_places(std::span<const float> values, std::span<std::uint32_t> places,
                 std::span<float> ranked) {
  const std::size_t n = values.size();
  bool is_sorted = false;
  if (n > kMostKeyPlaces) {
    sort_by_wide_keys(values, places);
    is_sorted = true;
  } else if (n >= kFewEntries) {
    is_sorted = sort_places(values, places);
  } else {
    for (std::size_t i = 0; i < n; ++i) places[i] = static_cast<std::uint32_t>(i);
  }
  take_values(values, places, ranked);
  if (is_sorted || insert_in_order(places, ranked)) return;
  sort_by_comparing(values, places);
  take_values(values, places, ranked);
}

}  // namespace cellfeed::transform
