// WideMatrix: a column for each gene, decoded to rows. Thread-safe. Lifetime: the file outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/dense_row.h"
#include "cellfeed/format/parquet/group_matrix.h"
#include "cellfeed/format/parquet/table_columns.h"

namespace cellfeed::format::parquet_table {

class WideMatrix final : public GroupMatrix {
 public:
  // Values have the type that holds those of all columns. Throws kCorruptData where the footer says
  // what cannot be.
  WideMatrix(const TableFile& file, const TableColumns& columns);

  const DenseRowDecoder& decoder() const { return decoder_; }
  std::int64_t row_bytes() const {
    return n_cols() * static_cast<std::int64_t>(dtype_bytes(dtype()));
  }
  void describe(StoreInfo& info) const override;
  // A missing value is NaN; throws kUnsupported naming row and column where values are integers,
  // and kPrecision for a value that is none of dtype().
  void decode(int number, std::vector<HeldBytes> held, std::span<std::byte> out) const override;
  std::unique_ptr<FetchedRows> begin(const GroupCache& cache, std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(std::span<const std::int64_t> rows) const override;

 private:
  std::size_t columns_at_once(int number) const;
  // All rows of a batch, one behind the other.
  void copy_column(const arrow::Array& column, std::size_t gene, std::int64_t first_row,
                   std::byte* out) const;

  std::vector<std::string> names_;
  DenseRowDecoder decoder_;
};

}  // namespace cellfeed::format::parquet_table
