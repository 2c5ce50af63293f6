// Genes whose names repeat in a file, where files are joined by names: which of them are the same?
// Pure but for reading var.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/matrix/csr.h"

namespace arrow {
class Table;
}

namespace cellfeed::collection {

// The genes of a file, or of shards that share them.
struct GeneTable {
  const matrix::GeneAxis* axis = nullptr;  // as it is joined
  // Column -> joined column, -1 where it is dropped; null: the same.
  const std::vector<std::int32_t>* map = nullptr;
  std::string path;
  std::function<std::shared_ptr<arrow::Table>()> read_var;
};

// A repeated name says which gene it is only together with its number, which counts the file's own
// columns. So columns of several files that join_genes() made one gene, where the name of one
// repeats, have to be known as the same: by a column of var that tells the repeats apart and
// agrees; or, of axes that are equal name by name, by none that contradicts. Throws
// kInvalidArgument naming the gene, both files and what is known of them.
void require_known_repeats(std::span<const GeneTable> tables);

}  // namespace cellfeed::collection
