// A collection as the input of a conversion or export: its cells and genes, and the matrices beside
// its own. Thread-safe, as Sources. Lifetime: they keep the stores of the collection.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/collection/collection.h"
#include "cellfeed/convert/inputs/matrix_sources.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/exec/thread_pool.h"

namespace cellfeed::convert {

// What is converted or exported instead of files.
struct ChosenCells {
  std::shared_ptr<const collection::Collection> cells;
  bool make_unique = false;  // as it was opened
  // What was chosen of the files, in the user's words, step by step; empty: all cells.
  std::vector<std::string> steps{};
  // Changes with what the stores' fingerprints do not tell: obs in memory.
  std::uint64_t content = 0;

  explicit operator bool() const { return cells != nullptr; }
};

// A source is a run of cells of one store. Throws kInvalidArgument where cells go back and forth
// between stores too often.
Sources sources_of(const ChosenCells& chosen, const ObsChoice& obs,
                   Origins origins = Origins::kOfChosenCells,
                   const std::vector<ObsSample>& obs_before = {},
                   std::shared_ptr<const collection::GeneTable> behind = {});
// Throws kInvalidArgument for those that cannot stand beside X, as matrix_names.
std::vector<MatrixSource> matrices_of(const ChosenCells& chosen);
// Of the stores, each once.
std::vector<std::string> paths_of(const ChosenCells& chosen);
// {"cells_of": all there were, "steps": [...]}; "{}" for all of them in their order.
std::string selection_json(const ChosenCells& chosen);

// What a filter leaves of files.
struct FilteredRows {
  std::shared_ptr<const std::vector<std::int64_t>> rows;  // as SourceOptions's
  std::vector<std::string> warnings;                      // as Filter's
  std::string selection_json = "{}";
};
// Of an empty filter: nothing, all rows stay. Reads obs alone. Throws what Filter throws, and
// kInvalidArgument where no cell is left.
FilteredRows filter_rows(const SourceOptions& options, const std::string& filter,
                         exec::ThreadPool& pool);

}  // namespace cellfeed::convert
