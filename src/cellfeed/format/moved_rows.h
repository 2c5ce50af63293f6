// MovedRows: rows that are decoded a few at a time, and whose columns move to those of a joined
// axis meanwhile, where that leaves them in their order. Thread-safe: as FetchedRows.
#pragma once

#include <cstdint>
#include <span>

#include "cellfeed/base/error.h"
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

// Puts columns that are decoded already where they go, as they are if all stay. to: may be where
// they lie, unless it is written past the caches. REQUIRES: they rise, and each has a place.
inline void move_columns(std::span<const std::int32_t> indices, const ColumnPlaces& places,
                         std::int32_t* to, UpcomingBytes upcoming = {}, bool past_caches = false) {
  const auto* from = reinterpret_cast<const std::byte*>(indices.data());
  const std::int64_t n = std::ssize(indices);
  if (places.empty()) {
    if (indices.data() != to)
      copy_bytes(from, 4 * n, reinterpret_cast<std::byte*>(to), upcoming, past_caches);
  } else if (!copy_places(from, n, places.places, places.narrow, to, upcoming, past_caches)) {
    throw Error(ErrorKind::kInternal, "a column that was decoded has no place");
  }
}

// What FetchedRows are as well, of formats that can do it.
class MovedRows {
 public:
  // As FetchedRows::decode, but that files are not asked whether they changed; then column c is
  // places[c]. REQUIRES: a place for each column.
  virtual void decode_moved(std::int64_t begin, std::int64_t end, const CsrTarget& target,
                            const ColumnPlaces& places) const = 0;
  // Throws where the rows decoded so far may be others, as a file was written to meanwhile. To be
  // called before they are given to anybody.
  virtual void require_intact() const = 0;

 protected:
  ~MovedRows() = default;
};

}  // namespace cellfeed::format
