// Rows of which a store keeps some columns: what another FetchedRows decodes, with the entries of
// the others taken out. Thread-safe, as FetchedRows is.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

// columns: stored column -> column of the store, ascending, or -1. Sizes are those of the stored
// rows, so that they bound what is decoded. Lifetime: columns outlive the result.
std::unique_ptr<FetchedRows> choose_columns(std::unique_ptr<FetchedRows> rows,
                                            std::span<const std::int32_t> columns);

}  // namespace cellfeed::format
