// ColumnMap: where the columns of a store go, and what rows must go through on that way; known once
// for all of them. Thread-safe: immutable. Lifetime: a view of the places.
#pragma once

#include <cstdint>
#include <span>

namespace cellfeed::transform {

struct MapTraits {
  std::int32_t n_columns = 0;  // 1 + the largest place
  bool keeps_order = true;     // of the columns that it keeps
  bool keeps_all = true;
  bool keeps_most = true;  // more than half
};

MapTraits find_traits(std::span<const std::int32_t> places);

// Entry of column g goes to places[g], or is dropped where that is -1. No two go to one.
struct ColumnMap {
  ColumnMap() = default;  // everything stays where it is
  explicit ColumnMap(std::span<const std::int32_t> places)
      : ColumnMap(places, find_traits(places)) {}
  ColumnMap(std::span<const std::int32_t> places, MapTraits traits)
      : places(places), traits(traits) {}
  bool empty() const { return places.empty(); }

  std::span<const std::int32_t> places;
  MapTraits traits;
};

}  // namespace cellfeed::transform
