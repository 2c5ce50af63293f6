// Names of a store's genes by a column of its var. Thread-safe: pure but for reading the store.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace arrow {
class ChunkedArray;
}

namespace cellfeed::collection {

// One name a gene: of the first of the columns that the store's var has, "_index" being the names
// themselves; these too where no columns are given. Throws kNoSuchKey where it has none of them;
// kInvalidArgument where one is no text, or a gene has no value in it.
std::vector<std::string> keys_of_genes(const format::RowStore& store,
                                       std::span<const std::string> columns);

// The texts of a column of var, empty where one is missing; nothing where it does not hold text.
std::optional<std::vector<std::string>> text_column(const std::string& name,
                                                    const arrow::ChunkedArray& values);

// Whether both are shards of one directory, whose gene table is one. Files may name the same genes,
// and share that axis in memory, while the rest of their var differs.
bool have_one_gene_table(const format::RowStore& a, const format::RowStore& b);

}  // namespace cellfeed::collection
