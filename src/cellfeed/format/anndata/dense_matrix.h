// DenseMatrix: a matrix of an AnnData file that is one array of two dimensions. Thread-safe.
// Lifetime: the tree outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/row_matrix.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

class DenseMatrix final : public RowMatrix {
 public:
  // Throws what opening an array throws; kUnsupported for more than 2^31-1 columns.
  DenseMatrix(const StoredTree& file, const std::string& layer);
  // Of the columns of a row that the field has.
  DenseMatrix(const StoredTree& file, const std::string& layer, const StoredField& field);

  const StoredTree& file() const { return file_; }
  std::int64_t n_rows() const override { return values_->shape()[0]; }
  std::int64_t n_cols() const override { return n_cols_; }
  const StoredArray& values() const { return *values_; }
  const DenseRowDecoder& decoder() const { return decoder_; }
  std::vector<const StoredArray*> arrays() const override { return {values_.get()}; }
  void describe(StoreInfo& info) const override;
  std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                     std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(const chunked::ChunkCache& cache,
                std::span<const std::int64_t> rows) const override;
  // Where row lies. Throws kOutOfRange.
  chunked::EntryRange row_elements(std::int64_t row) const;

 private:
  const StoredTree& file_;
  const std::unique_ptr<const StoredArray> values_;
  std::int64_t first_col_ = 0;  // of those in values_
  std::int64_t n_cols_;
  DenseRowDecoder decoder_;
};

}  // namespace cellfeed::format::anndata
