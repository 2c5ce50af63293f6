// Columns of obs that come from elsewhere, beside those of a store's file.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/collection/row_selection.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// `store` with these columns, one value a row, behind its own. content: a number that follows from
// them. REQUIRES: a column for each of its rows, of no name that the store has.
std::shared_ptr<const format::RowStore> with_added_obs(
    std::shared_ptr<const format::RowStore> store, std::shared_ptr<arrow::Table> columns,
    std::uint64_t content);

// The columns for all stored rows: any value where no row is selected. columns: one value for each
// selected row.
std::shared_ptr<arrow::Table> spread_rows(const std::shared_ptr<arrow::Table>& columns,
                                          const RowSelection& selected, std::int64_t n_stored);

// A number that follows from names, types and values. Throws what make_fixed_column throws.
std::uint64_t hash_of_columns(const arrow::Table& columns);

// The store that obs was added to, and any other store itself.
const format::RowStore& without_added_obs(const format::RowStore& store);

}  // namespace cellfeed::collection
