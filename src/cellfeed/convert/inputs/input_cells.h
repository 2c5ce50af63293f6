// InputCells: the cells that a conversion, an export or a simulation reads, as a collection.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/format/row_store.h"

namespace cellfeed::convert {

struct InputCells {
  // The matrix to write, and beside it the layers and arrays of obsm to write too.
  std::shared_ptr<const collection::Collection> cells;
  bool make_unique = false;  // as it was opened
  // {"cells_of": all there were, "steps": [...]}; "{}" for all of them in their order.
  std::string selection_json = "{}";
  // The files and shard directories that were opened, also those of which no cell is left. Empty:
  // as the stores say.
  std::vector<std::string> paths{};
  // Columns of the stores are all genes of the files, in their order.
  bool has_genes_of_files = true;
  // Stores have renamed genes, and var keeps the names in the files as "var_names".
  bool keeps_own_names = false;

  std::vector<std::string> all_paths() const;
};

// How the program opens files to write their cells elsewhere.
struct InputOptions {
  std::vector<std::string>
      paths{};  // files, globs or shard directories, in the order of the output
  std::string layer = "X";
  // Beside it, by name. Layers have its genes.
  std::vector<std::string> layers{}, obsm{};
  format::FileChoice choice{};
  std::string join{};                // see Collection: "", "inner", "outer"
  std::vector<std::string> genes{};  // exactly this axis, in this order; join must be empty
  std::vector<std::string> var_keys{};
  bool make_unique = false;
  // An expression over obs (collection::Filter) that is true of the cells to take; "": all of them.
  std::string filter{};
  // Makes rows of inputs that are not stored by rows. Null: as late_rows().
  format::RowMaker row_maker{};
};

struct OpenedInputs {
  InputCells input;
  std::vector<std::string> warnings;  // of the filter
};

// Throws what Collection::open and Filter throw, and kInvalidArgument where the filter leaves no
// cell, or a matrix is named twice.
OpenedInputs open_inputs(const InputOptions& options);

// Rows of inputs that are not stored by rows are made by whoever reads them (see Sources), for one
// run, and nothing of them stays.
format::RowMaker late_rows();

// The layers and arrays of obsm that all of these hold, if all are shard directories.
std::vector<std::string> matrices_of_shards(const std::vector<std::string>& paths);

std::string selection_json(const collection::Collection& cells,
                           const std::vector<std::string>& steps);

}  // namespace cellfeed::convert
