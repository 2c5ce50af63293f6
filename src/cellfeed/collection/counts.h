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

// How to open other matrices of the same file that hold counts: "layer=\"raw/X\""; empty where
// there are none, and where the file is not one that lists its matrices. Those that cannot be read
// by rows are left out.
std::string matrices_of_counts(const format::RowStore& store, std::span<const std::int64_t> rows);

}  // namespace cellfeed::collection
