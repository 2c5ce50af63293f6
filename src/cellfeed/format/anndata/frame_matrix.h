// FrameMatrix: a table of obsm, such as the proteins of CITE-seq, as a dense matrix: each column is
// an array of its own. Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/anndata/dataframe.h"
#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/row_matrix.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

bool is_frame(const StoredNode& node);

class FrameMatrix final : public RowMatrix {
 public:
  // Throws kUnsupported, which names the column, for one that holds no numbers, and kCorruptData
  // where its index is not that of obs.
  FrameMatrix(const StoredTree& file, const std::string& path);

  const StoredTree& file() const { return file_; }
  std::int64_t n_rows() const override { return frame_.n_rows(); }
  std::int64_t n_cols() const override { return std::ssize(columns_); }
  const StoredArray& column(std::size_t c) const { return *columns_[c]; }
  // The numbers of a row, once its columns are of one type.
  const DenseRowDecoder& decoder() const { return decoder_; }
  DType dtype() const { return dtype_; }
  std::vector<std::string> column_names() const override { return frame_.columns(); }
  std::vector<const StoredArray*> arrays() const override;
  void describe(StoreInfo& info) const override;
  std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                     std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(const chunked::ChunkCache& cache,
                std::span<const std::int64_t> rows) const override;
  // Throws kOutOfRange.
  std::vector<chunked::EntryRange> ranges_of(std::span<const std::int64_t> rows) const;
  // Throws kPrecision for a value of column c that dtype() does not hold.
  [[noreturn]] void throw_misfit(std::size_t c, std::int64_t row, const std::string& value) const;

 private:
  void require_index_of_obs() const;
  std::vector<std::unique_ptr<const StoredArray>> open_columns() const;
  DType common_dtype() const;

  const StoredTree& file_;
  const Dataframe frame_;
  const std::vector<std::unique_ptr<const StoredArray>> columns_;
  const DType dtype_;
  const DenseRowDecoder decoder_;
};

}  // namespace cellfeed::format::anndata
