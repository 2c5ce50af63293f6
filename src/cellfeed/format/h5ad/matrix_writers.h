// Matrices of an .h5ad file being written, row by row: CSR groups, and arrays of two dimensions.
// Not thread-safe. Lifetime: the targets outlive the writers, and are closed after them.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "cellfeed/format/h5ad/growing_array.h"
#include "cellfeed/format/h5ad/h5ad_writer.h"

namespace cellfeed::format::h5ad {

class MatrixWriter {
 public:
  virtual ~MatrixWriter() = default;
  // Throws kInvalidArgument for columns out of range, kPrecision for values that do not fit.
  void append(const CsrSlice& rows);
  // Nothing may be appended after it.
  virtual void finish() = 0;
  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t nnz() const { return nnz_; }
  std::int64_t n_cols() const { return n_cols_; }

 protected:
  MatrixWriter(std::string path, std::int64_t n_cols) : path_(std::move(path)), n_cols_(n_cols) {}
  // ends: of each row, in entries that begin with the first one.
  virtual void append_rows(const CsrSlice& entries, std::span<const std::int64_t> ends) = 0;

  const std::string path_;  // for messages
  const std::int64_t n_cols_;
  std::int64_t n_rows_ = 0;  // before those that are being appended
  std::int64_t nnz_ = 0;

 private:
  void check_columns(const std::int32_t* columns, std::int64_t n) const;
};

struct MatrixTargets {
  const WriteTarget& entries;  // of data and indices
  const WriteTarget& offsets;
};

std::unique_ptr<MatrixWriter> make_csr_writer(const MatrixTargets& targets, const std::string& name,
                                              std::int64_t n_cols, DType value_dtype,
                                              DType index_dtype);
std::unique_ptr<MatrixWriter> make_array_writer(const WriteTarget& target, const std::string& name,
                                                std::int64_t n_cols, DType value_dtype);

}  // namespace cellfeed::format::h5ad
