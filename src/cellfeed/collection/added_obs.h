// Columns of obs that come from elsewhere, beside those of a store's file.
#pragma once

#include <cstdint>
#include <memory>

#include "cellfeed/collection/row_selection.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// Columns for all stored rows.
struct AddedColumns {
  // As obs_column() has them: any value where no row is selected, as missing ones would make
  // numbers floats.
  std::shared_ptr<arrow::Table> filled;
  // As read_obs() has them: missing where no row is selected.
  std::shared_ptr<arrow::Table> shown;
  std::uint64_t content = 0;  // a number that follows from names, types and values
};
// columns: one value for each selected row; null: for each stored row. Throws what
// make_fixed_column throws.
AddedColumns spread_columns(const std::shared_ptr<arrow::Table>& columns,
                            const RowSelection* selected, std::int64_t n_stored);

// `store`, whose rows are those from `begin`, with these columns behind its own. REQUIRES: it has
// no column of these names.
std::shared_ptr<const format::RowStore> with_added_obs(
    std::shared_ptr<const format::RowStore> store, const AddedColumns& columns, std::int64_t begin);

// The store that obs was added to, and any other store itself.
const format::RowStore& without_added_obs(const format::RowStore& store);

}  // namespace cellfeed::collection
