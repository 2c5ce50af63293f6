// Whether values are counts, as far as some rows tell. Reads these rows.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// A value that is no count: negative, or a fraction. NaN and infinity are looked for elsewhere.
struct NoCount {
  std::int64_t row = 0;  // of the store
  std::int32_t column = 0;
  double value = 0;
  double highest = 0;  // of all values of the rows
};

// The first negative one, else the first fraction.
std::optional<NoCount> find_no_count(const format::RowStore& store,
                                     std::span<const std::int64_t> rows);

// What to do where a matrix has no counts, for an error: which matrices of the same file have them,
// "the counts are there with layer=\"raw/X\"", or that none has. Those that cannot be read by rows
// are left out.
std::string where_counts_are(const format::RowStore& store, std::span<const std::int64_t> rows);

}  // namespace cellfeed::collection
