// ColumnMap: where the columns of a store go, and what rows must go through on that way; known once
// for all of them. Thread-safe: immutable. Lifetime: a view of the places.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace cellfeed::transform {

struct MapTraits {
  std::int32_t n_cols = 0;  // 1 + the largest place
  bool keeps_order = true;  // of the columns that it keeps
  bool keeps_all = true;
  bool keeps_most = true;  // more than half
};

MapTraits find_traits(std::span<const std::int32_t> places);

// The same places in half the bytes, so that a map of some ten thousand columns leaves room for
// rows in the nearest cache. Empty where a column is dropped, or a place is above 65535.
std::vector<std::uint16_t> narrow_places(std::span<const std::int32_t> places,
                                         const MapTraits& traits);

// A bit for each column that has a place, in words of 32, and the padding that keep_mapped asks
// for. Empty where all have one.
std::vector<std::uint32_t> mark_kept(std::span<const std::int32_t> places, const MapTraits& traits);

// Entry of column g goes to places[g], or is dropped where that is -1. No two go to one.
struct ColumnMap {
  ColumnMap() = default;  // everything stays where it is
  explicit ColumnMap(std::span<const std::int32_t> places)
      : ColumnMap(places, find_traits(places)) {}
  ColumnMap(std::span<const std::int32_t> places, MapTraits traits,
            std::span<const std::uint16_t> narrow = {}, std::span<const std::uint32_t> marks = {})
      : places(places), narrow(narrow), marks(marks), traits(traits) {}
  bool empty() const { return places.empty(); }

  std::span<const std::int32_t> places;
  std::span<const std::uint16_t> narrow;  // of narrow_places, where somebody made them
  std::span<const std::uint32_t> marks;   // of mark_kept, likewise
  MapTraits traits;
};

}  // namespace cellfeed::transform
