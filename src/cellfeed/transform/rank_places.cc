#include "cellfeed/transform/rank_places.h"

#include <hwy/contrib/sort/vqsort.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <vector>

namespace cellfeed::transform {
namespace {

// Below, vectors have nothing to win.
constexpr std::size_t kFewEntries = 48;
// Up to here what a key of 32 bits has beside a place tells most values apart.
constexpr std::size_t kManyEntries = std::size_t{1} << 14;
constexpr int kKeyBits = 32;
// Steps back, a place, of what keys left unsorted; beyond, comparing is quicker.
constexpr std::size_t kStepsBack = 4;

// Smaller comes first: the larger value.
std::uint32_t falling_bits(float value) { return ~std::bit_cast<std::uint32_t>(value); }

void sort_by_comparing(std::span<const float> values, std::span<std::uint32_t> places) {
  std::stable_sort(places.begin(), places.end(),
                   [&](std::uint32_t a, std::uint32_t b) { return values[a] > values[b]; });
}

// Sorts what is nearly sorted, stable; false where it took too many steps, and then some is not.
bool insert_in_order(std::span<const float> values, std::span<std::uint32_t> places) {
  std::size_t steps_left = kStepsBack * places.size();
  float smallest = values[places[0]];
  for (std::size_t i = 1; i < places.size(); ++i) {
    const std::uint32_t place = places[i];
    const float value = values[place];
    if (value <= smallest) {
      smallest = value;
      continue;
    }
    std::size_t at = i;
    for (; at > 0 && values[places[at - 1]] < value; --at) places[at] = places[at - 1];
    places[at] = place;
    if (i - at > steps_left) return false;
    steps_left -= i - at;
  }
  return true;
}

// By as many bits, from the highest one on in which values differ, as a key has room for beside the
// place, which keeps equal ones in their order. True where these are all that differ.
bool sort_by_keys(std::span<const float> values, std::span<std::uint32_t> places,
                  const hwy::Sorter& sorter) {
  const std::size_t n = values.size();
  std::uint32_t first = falling_bits(values[0]), last = first;
  for (const float value : values) {
    first = std::min(first, falling_bits(value));
    last = std::max(last, falling_bits(value));
  }
  const int place_bits = static_cast<int>(std::bit_width(n - 1));
  const int width = static_cast<int>(std::bit_width(last - first));
  const int dropped = std::max(0, width - (kKeyBits - place_bits));
  std::uint32_t differing = 0;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = falling_bits(values[i]) - first;
    differing |= bits;
    places[i] = bits >> dropped << place_bits | static_cast<std::uint32_t>(i);
  }
  sorter(places.data(), n, hwy::SortAscending());
  const std::uint32_t mask = (std::uint32_t{1} << place_bits) - 1;
  for (std::uint32_t& place : places) place &= mask;
  return (differing & ((std::uint32_t{1} << dropped) - 1)) == 0;
}

void sort_by_wide_keys(std::span<const float> values, std::span<std::uint32_t> places,
                       const hwy::Sorter& sorter) {
  std::vector<std::uint64_t> keys(values.size());
  for (std::size_t i = 0; i < keys.size(); ++i)
    keys[i] = std::uint64_t{falling_bits(values[i])} << 32 | i;
  sorter(keys.data(), keys.size(), hwy::SortAscending());
  for (std::size_t i = 0; i < keys.size(); ++i) places[i] = static_cast<std::uint32_t>(keys[i]);
}

}  // namespace

void rank_places(std::span<const float> values, std::span<std::uint32_t> places) {
  if (values.size() < kFewEntries) {
    for (std::size_t i = 0; i < places.size(); ++i) places[i] = static_cast<std::uint32_t>(i);
    if (!values.empty() && !insert_in_order(values, places)) sort_by_comparing(values, places);
    return;
  }
  static thread_local const hwy::Sorter sorter;
  if (values.size() > kManyEntries) return sort_by_wide_keys(values, places, sorter);
  if (sort_by_keys(values, places, sorter)) return;
  if (!insert_in_order(values, places)) sort_by_comparing(values, places);
}

}  // namespace cellfeed::transform
