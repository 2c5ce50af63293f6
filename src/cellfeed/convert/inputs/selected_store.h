// SelectedStore: some rows of another store, in any order, repeats allowed. Only what conversions
// and exports read of a store is there. Thread-safe: const.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

// rows: of the other store, at least one. Throws kOutOfRange.
std::unique_ptr<format::RowStore> select_rows(std::shared_ptr<const format::RowStore> store,
                                              const std::vector<std::int64_t>& rows);
using SharedStores = std::span<const std::shared_ptr<const format::RowStore>>;
// Rows of several stores, in their order: a store for each run of rows of one. Throws
// kInvalidArgument where they go back and forth between stores too often.
std::vector<std::unique_ptr<format::RowStore>> select_rows(
    SharedStores stores, std::int64_t n_rows,
    const std::function<collection::RowPlace(std::int64_t)>& place_of);
// The other store itself.
std::unique_ptr<format::RowStore> all_rows(std::shared_ptr<const format::RowStore> store);

}  // namespace cellfeed::convert
