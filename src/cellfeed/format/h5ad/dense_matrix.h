// DenseMatrix: a matrix of an .h5ad file that is one dataset of two dimensions. Thread-safe.
// Lifetime: the H5File outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/h5ad/layers.h"
#include "cellfeed/format/row_matrix.h"

namespace cellfeed::format::h5ad {

class DenseMatrix final : public RowMatrix {
 public:
  // Throws what StoredArray throws; kUnsupported for more than 2^31-1 columns.
  DenseMatrix(const H5File& file, const std::string& layer);
  // Of the columns of a row that the field has.
  DenseMatrix(const H5File& file, const std::string& layer, const ObsmField& field);

  const H5File& file() const { return file_; }
  std::int64_t n_rows() const override { return values_.shape()[0]; }
  std::int64_t n_cols() const override { return n_cols_; }
  const StoredArray& values() const { return values_; }
  const DenseRowDecoder& decoder() const { return decoder_; }
  std::vector<const StoredArray*> arrays() const override { return {&values_}; }
  void describe(StoreInfo& info) const override;
  std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                     std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(const chunked::ChunkCache& cache,
                std::span<const std::int64_t> rows) const override;
  // Where row lies. Throws kOutOfRange.
  chunked::EntryRange row_elements(std::int64_t row) const;

 private:
  const H5File& file_;
  StoredArray values_;
  std::int64_t first_col_ = 0;  // of those in values_
  std::int64_t n_cols_;
  DenseRowDecoder decoder_;
};

}  // namespace cellfeed::format::h5ad
