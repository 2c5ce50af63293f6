// Parquet tables of cells: lists of genes and values, or a column for each gene. Thread-safe.
#pragma once

#include <memory>
#include <string>

#include "cellfeed/format/row_store.h"

namespace cellfeed::format::parquet_table {

// With layer kNoLayer obs alone, where every column that can be one is one of obs. Throws what
// TableFile, find_columns and GeneIds throw; kNoSuchKey for a layer that is not X.
std::unique_ptr<RowStore> open_parquet(const std::string& path, const OpenOptions& options);

}  // namespace cellfeed::format::parquet_table
