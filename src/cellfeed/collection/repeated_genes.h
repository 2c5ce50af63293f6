// Genes whose names repeat in a file, where files are joined by names: which of them are the same?
// Pure but for reading var.
#pragma once

#include <span>
#include <vector>

#include "cellfeed/collection/gene_join.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::collection {

// A store's columns as they are joined.
struct NamedStore {
  const format::RowStore* store = nullptr;
  const matrix::GeneAxis* axis = nullptr;  // as joined; stores of one axis may share it
  RepeatedNames repeats{};                 // of make_unique(); empty: no name repeats
};

// A repeated name says which gene it is only together with its number, which counts the file's own
// columns. So columns of several files that join_genes() made one gene, where the name of one
// repeats, have to be known as the same: by a column of var that tells the repeats apart and
// agrees; or, of axes that are equal name by name, by none that contradicts. Throws
// kInvalidArgument naming the gene, both files and what is known of them.
void require_known_repeats(const GeneJoin& joined, std::span<const NamedStore> stores);

}  // namespace cellfeed::collection
