// CellTask: the work of reading a range of cells, cut into pieces of rows and of obs that threads
// can take one by one.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <variant>
#include <vector>

#include "cellfeed/convert/inputs/sources.h"

namespace cellfeed::convert {

struct CellTask {
  bool is_obs = false;  // obs of the range, else its rows; obs comes before the rows it belongs to
  SourceRange range;
  std::size_t matrix = 0;  // that the rows are of
};

struct CellTaskSizes {
  // Decoded rows of one task, so that a few a thread fit any budget.
  std::int64_t piece_bytes = 8 << 20;
  std::int64_t piece_cells = 16384;
  std::int64_t obs_cells = 65536;  // many small reads of many obs columns are dear
};

// Tasks for cells [begin, end) of the joined table, in order, of each matrix. A pure function:
// never of threads or budgets. matrices: of the same cells, in stores that are cut alike; the first
// has obs. sizes: one a matrix.
std::vector<CellTask> make_cell_tasks(std::span<const Sources* const> matrices, std::int64_t begin,
                                      std::int64_t end, std::span<const CellTaskSizes> sizes);
std::vector<CellTask> make_cell_tasks(const Sources& sources, std::int64_t begin, std::int64_t end,
                                      const CellTaskSizes& sizes = {});

// What reading the obs of a range holds, about.
std::int64_t plan_obs_bytes(const Sources& sources, const SourceRange& range);

}  // namespace cellfeed::convert
