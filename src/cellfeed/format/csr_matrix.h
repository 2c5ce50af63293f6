// CsrMatrix: a group of a file with the three arrays of a CSR matrix: data, indices, indptr.
// Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/row_matrix.h"
#include "cellfeed/format/row_offsets.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format {

class CsrMatrix final : public RowMatrix {
 public:
  // Throws kCorruptData for parts that do not fit together, kUnsupported for types that are no
  // numbers of a matrix.
  CsrMatrix(const StoredTree& file, std::string group, std::int64_t n_rows, std::int64_t n_cols);

  const StoredTree& file() const { return file_; }
  std::int64_t n_rows() const override { return n_rows_; }
  std::int64_t n_cols() const override { return n_cols_; }
  std::int64_t nnz() const { return data_->length(); }
  const StoredArray& data() const { return *data_; }
  const StoredArray& indices() const { return *indices_; }
  const RowDecoder& decoder() const { return decoder_; }
  std::vector<const StoredArray*> arrays() const override { return {data_.get(), indices_.get()}; }
  void describe(StoreInfo& info) const override;
  std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                     std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(const chunked::ChunkCache& cache,
                std::span<const std::int64_t> rows) const override;
  std::int64_t take_cache_bytes(std::int64_t bytes) const override {
    return offsets_.take_cache_bytes(bytes);
  }
  // Where rows lie in data and indices.
  const RowOffsets& offsets() const { return offsets_; }

 private:
  std::int64_t checked_entries() const;

  const StoredTree& file_;
  std::string layer_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_cols_ = 0;
  const std::unique_ptr<const StoredArray> data_;
  const std::unique_ptr<const StoredArray> indices_;
  RowOffsets offsets_;
  RowDecoder decoder_;
};

}  // namespace cellfeed::format
