// CscMatrix: one CSC group of an AnnData file, read piece by piece from front to back or here and
// there. Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"
#include "cellfeed/format/entry_store.h"
#include "cellfeed/format/stored_array.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

class CscMatrix {
 public:
  // Throws kCorruptData for parts that do not fit together, kUnsupported for more than 2^32-1 rows.
  CscMatrix(const StoredTree& file, std::string layer);

  std::int64_t n_rows() const { return n_rows_; }
  std::int64_t n_cols() const { return n_cols_; }
  std::int64_t nnz() const { return data_->length(); }
  const StoredArray& data() const { return *data_; }

  std::int64_t n_pieces() const { return (nnz() + piece_entries_ - 1) / piece_entries_; }
  std::int64_t piece_bytes() const;
  // As EntryStore's.
  void read_piece(std::int64_t piece, EntryParts parts, Entries& entries) const;

 private:
  void check_offsets() const;
  // Numbers of this machine.
  void read_numbers(const StoredArray& array, std::int64_t begin, std::int64_t n,
                    std::span<std::byte> out) const;
  void read_rows(std::int64_t begin, Entries& entries) const;
  void name_columns(std::int64_t begin, Entries& entries) const;
  [[noreturn]] void throw_bad_row(std::int64_t entry, const std::string& row) const;

  const StoredTree& file_;
  const std::string layer_;
  std::int64_t n_rows_ = 0;
  std::int64_t n_cols_ = 0;
  const std::unique_ptr<const StoredArray> data_;
  const std::unique_ptr<const StoredArray> indices_;
  std::vector<std::int64_t> offsets_;  // of columns
  std::int64_t piece_entries_ = 0;
};

}  // namespace cellfeed::format::anndata
