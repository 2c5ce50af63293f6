// Cells alone: stores of obs and of no genes, for whoever asks for no matrix. Thread-safe.
#pragma once

#include <memory>
#include <vector>

#include "cellfeed/format/row_store.h"

namespace cellfeed::format {

// All of a store but obs. Its rows have no entries.
class CellsAlone : public RowStore {
 public:
  const StoreInfo& info() const final { return info_; }
  const matrix::GeneAxis& genes() const final { return genes_; }
  std::unique_ptr<FetchedRows> begin(std::span<const std::int64_t> rows,
                                     const ReadContext& context = {}) const final;
  ReadPlan plan(std::span<const std::int64_t> rows) const final;
  std::shared_ptr<arrow::Table> read_var() const final;
  // A cell's total says nothing of a row without genes.
  std::optional<matrix::FixedColumn> known_library_sizes() const final { return std::nullopt; }

 protected:
  // Of `whole`, what is true without its matrix.
  void describe(const StoreInfo& whole);

 private:
  StoreInfo info_;
  const matrix::GeneAxis genes_;
};

// The cells of a store whose matrix is left alone.
std::unique_ptr<RowStore> leave_out_matrix(std::unique_ptr<RowStore> store);

}  // namespace cellfeed::format
