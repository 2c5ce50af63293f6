// CsrMatrix: one CSR group of an .h5ad file ("X", "raw/X", "layers/counts"): its shape, row offsets
// and two arrays. Thread-safe. Lifetime: the H5File outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/h5ad/h5_file.h"
#include "cellfeed/format/h5ad/row_matrix.h"
#include "cellfeed/format/h5ad/stored_array.h"

namespace cellfeed::format::h5ad {

class CsrMatrix final : public RowMatrix {
 public:
  // Throws kUnsupported for what is not CSR, kCorruptData for parts that do not fit together.
  CsrMatrix(const H5File& file, std::string layer);

  const H5File& file() const { return file_; }
  std::int64_t n_rows() const override { return n_rows_; }
  std::int64_t n_cols() const override { return n_cols_; }
  std::int64_t nnz() const { return data_.length(); }
  const StoredArray& data() const { return data_; }
  const StoredArray& indices() const { return indices_; }
  const RowDecoder& decoder() const { return decoder_; }
  std::vector<const StoredArray*> arrays() const override { return {&data_, &indices_}; }
  void describe(StoreInfo& info) const override;
  std::unique_ptr<FetchedRows> begin(const chunked::ChunkCache& cache,
                                     std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(const chunked::ChunkCache& cache,
                std::span<const std::int64_t> rows) const override;
  // Where row lies in data and indices. Throws kOutOfRange, or kCorruptData naming the row and the
  // two offsets.
  chunked::EntryRange row_entries(std::int64_t row) const;

 private:
  void check_offsets() const;
  [[noreturn]] void throw_bad_offsets(std::int64_t row, std::int64_t begin, std::int64_t end) const;
  std::int64_t offset_at(std::int64_t i) const;

  const H5File& file_;
  std::string layer_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_cols_ = 0;
  StoredArray data_;
  StoredArray indices_;
  StoredArray indptr_;
  std::vector<std::int64_t> offsets_;  // empty where indptr is memory-mapped
  RowDecoder decoder_;
};

// "csr_matrix" or "csc_matrix", also of groups that anndata 0.5 and 0.6 wrote.
std::string sparse_encoding(const hdf5::Object& group);
// Rows and columns, as the group of a sparse matrix says. Throws kNoSuchKey or kCorruptData.
std::pair<std::int64_t, std::int64_t> read_matrix_shape(const H5File& file,
                                                        const std::string& layer);

// The path in the file of OpenOptions::layer. Throws kNoSuchKey listing the layers there are, or
// what kind of file this is when there is no matrix at all.
std::string find_layer(const H5File& file, const std::string& layer);
// What users call the matrix at a path, and where its genes are described.
std::string layer_name(const std::string& path);
std::string var_path(const std::string& path);

}  // namespace cellfeed::format::h5ad
