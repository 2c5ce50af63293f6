// What the columns of a table of cells are: genes, values, names of the cells, obs. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/format/parquet/table_file.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::format::parquet_table {

enum class TableKind {
  kLists,  // the genes of each cell and their values, as two lists
  kWide,   // a column for each gene
  kObs,    // obs alone was asked for
};

struct TableColumns {
  TableKind kind = TableKind::kObs;
  int genes = -1, values = -1;  // of lists
  std::vector<int> wide;        // the genes of a wide table
  std::vector<int> obs;         // in the file's order
  int index = -1;               // names the cells; -1: they are numbered
  std::int64_t first_number = 0, number_step = 1;
  std::vector<std::string> left_out;  // "when (timestamp[us])": columns that are not read
};

// By the names and types of the columns, what pandas noted, and the options. Throws
// kInvalidArgument or kNoSuchKey, saying what to name, where that does not tell; kUnsupported for
// tokens without values.
TableColumns find_columns(const TableFile& file, const OpenOptions& options);

}  // namespace cellfeed::format::parquet_table
