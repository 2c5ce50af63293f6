// CscMatrix: one CSC group of an .h5ad file, read piece by piece from front to back or here and
// there. Thread-safe. Lifetime: the H5File outlives it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/h5_file.h"
#include "cellfeed/format/stored_number.h"
#include "cellfeed/hdf5/dataset_bytes.h"

namespace cellfeed::format::h5ad {

// A dataset of numbers in one dimension, its elements copied out as this machine has them.
class NumberArray {
 public:
  // Throws kCorruptData or kUnsupported naming the dataset.
  NumberArray(const H5File& file, const std::string& name,
              hdf5::Unwritten unwritten = hdf5::Unwritten::kFilled);

  const std::string& name() const { return name_; }
  DType dtype() const { return number_.dtype; }
  std::int64_t length() const { return length_; }
  // 0 where it is not chunked.
  std::int64_t chunk_elements() const;
  std::string compression() const { return bytes_.filters().name(); }
  // REQUIRES: the elements are there, out is as long as they are and aligned for dtype().
  void read(std::int64_t begin, std::int64_t n, std::span<std::byte> out) const;
  // All of them. Throws kCorruptData where they are no integers.
  std::vector<std::int64_t> read_integers(const std::string& path) const;

 private:
  std::string name_;
  hdf5::DatasetBytes bytes_;
  StoredNumber number_;
  std::int64_t length_ = 0;
};

class CscMatrix {
 public:
  // Throws kCorruptData for parts that do not fit together, kUnsupported for more than 2^32-1 rows.
  CscMatrix(const H5File& file, std::string layer);

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_cols() const { return n_cols_; }
  std::int64_t nnz() const { return data_.length(); }
  const NumberArray& data() const { return data_; }

  std::int64_t n_pieces() const { return (nnz() + piece_entries_ - 1) / piece_entries_; }
  std::int64_t piece_bytes() const;
  // As EntryStore's.
  void read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const;

 private:
  void check_offsets() const;
  void read_rows(std::int64_t begin, Entries& entries) const;
  void name_columns(std::int64_t begin, Entries& entries) const;
  [[noreturn]] void throw_bad_row(std::int64_t entry, const std::string& row) const;

  const H5File& file_;
  const std::string layer_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_cols_ = 0;
  NumberArray data_;
  NumberArray indices_;
  std::vector<std::int64_t> offsets_;  // of columns
  std::int64_t piece_entries_ = 0;
};

}  // namespace cellfeed::format::h5ad
