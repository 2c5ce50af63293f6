// MovedRows: rows whose columns move to those of a joined axis while they are decoded, where that
// leaves them in their order. Thread-safe: as FetchedRows.
#pragma once

#include <cstdint>
#include <span>

#include "cellfeed/format/row_copy.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

// Of each column of a store its place, which rises from one to the next; empty: all stay.
// Lifetime: a view.
struct ColumnPlaces {
  bool empty() const { return places.empty(); }

  std::span<const std::int32_t> places;
  std::span<const std::uint16_t> narrow;  // the same in half the bytes; empty where somebody has
                                          // not made them, or a place is above 65535
};

// Moves columns that are decoded already. REQUIRES: 0 <= indices[i] < places.places.size().
inline void move_columns(std::span<std::int32_t> indices, const ColumnPlaces& places) {
  const auto move = [indices](const auto* place) {
    std::int32_t* at = indices.data();
    std::int32_t* const end = at + indices.size();
    for (; end - at >= 2; at += 2) look_up_two(reinterpret_cast<const std::byte*>(at), place, at);
    if (at != end) *at = place[*at];
  };
  if (places.narrow.empty())
    move(places.places.data());
  else
    move(places.narrow.data());
}

// What FetchedRows are as well, of formats that can do it.
class MovedRows {
 public:
  // As FetchedRows::decode; then column c is places[c]. REQUIRES: a place for each column.
  virtual void decode_moved(std::int64_t begin, std::int64_t end, const CsrSink& sink,
                            const ColumnPlaces& places) const = 0;

 protected:
  ~MovedRows() = default;
};

}  // namespace cellfeed::format
