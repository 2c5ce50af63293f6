// RealCells: the cells a simulation draws from: in memory where the budget allows, else read as
// they are drawn. Thread-safe: const after opening.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

#include "cellfeed/convert/inputs/row_reader.h"
#include "cellfeed/convert/inputs/sources.h"
#include "cellfeed/exec/thread_pool.h"
#include "cellfeed/matrix/obs.h"

namespace arrow {
class Table;
}

namespace cellfeed::convert {

class RealCells {
 public:
  // Reads every value once. output: beside it is room for a temporary file. Throws kInvalidArgument
  // for NaN, infinite values and negative counts, naming the row.
  RealCells(const InputCells& input, std::int64_t memory_budget, const std::string& output,
            exec::ThreadPool& pool, std::stop_token stop);

  std::int64_t n_cells() const { return sources_.n_cells(); }
  const Sources& sources() const { return sources_; }
  bool has_counts() const { return has_counts_; }  // every value is a whole number
  // Rows in any order, as a piece: scratch, or all cells with positions that say where the rows are
  // in it.
  const CsrPiece& rows(std::span<const std::int64_t> cells, CsrPiece& scratch,
                       std::vector<std::int64_t>& positions) const;
  const arrow::Table& obs() const { return *obs_; }
  matrix::FixedColumn labels(const std::string& column) const;

 private:
  void read(std::int64_t source, std::span<const std::int64_t> rows, CsrPiece& piece) const;

  Sources sources_;
  DType dtype_;                                          // of the values of all sources
  std::shared_ptr<const collection::CacheShare> cache_;  // of the input
  std::shared_ptr<arrow::Table> obs_;
  std::optional<CsrPiece> all_;
  bool has_counts_ = true;
};

}  // namespace cellfeed::convert
