// ListMatrix: the entries of each cell as a list of genes and a list of values. Thread-safe.
// Lifetime: the file outlives it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/format/csr_row.h"
#include "cellfeed/format/parquet/gene_ids.h"
#include "cellfeed/format/parquet/group_matrix.h"
#include "cellfeed/format/parquet/table_columns.h"

namespace cellfeed::format::parquet_table {

// A decoded row group: where the entries of each row begin, then all values, then all columns.
struct ListLayout {
  std::int64_t n_rows = 0;
  std::int64_t most_entries = 0;
  std::int64_t value_bytes = 0;  // of each

  static constexpr auto kIndexBytes = static_cast<std::int64_t>(sizeof(std::int32_t));
  std::int64_t values_begin() const {
    return (n_rows + 1) * static_cast<std::int64_t>(sizeof(std::int64_t));
  }
  std::int64_t indices_begin() const {
    return values_begin() +
           (most_entries * value_bytes + kIndexBytes - 1) / kIndexBytes * kIndexBytes;
  }
  std::int64_t n_bytes() const { return indices_begin() + most_entries * kIndexBytes; }
};

class ListMatrix final : public GroupMatrix {
 public:
  // Throws kCorruptData where the footer says what cannot be.
  ListMatrix(const TableFile& file, const TableColumns& columns, GeneIds ids, std::int64_t n_genes);

  const GeneIds& ids() const { return ids_; }
  const RowDecoder& decoder() const { return decoder_; }
  ListLayout layout(int number) const {
    return {file().rows_of(number), group(number).most_entries,
            static_cast<std::int64_t>(dtype_bytes(dtype()))};
  }
  void describe(StoreInfo& info) const override;
  // Throws kCorruptData naming the row where lists are missing, hold nothing for an entry, differ
  // in length or name no gene.
  void decode(int number, std::vector<HeldBytes> held, std::span<std::byte> out) const override;
  std::unique_ptr<FetchedRows> begin(const GroupCache& cache, std::span<const std::int64_t> rows,
                                     const ReadContext& context) const override;
  ReadPlan plan(std::span<const std::int64_t> rows) const override;

 private:
  std::string genes_column_, values_column_;
  const bool genes_first_;  // of the two columns
  const bool holds_names_;
  GeneIds ids_;
  RowDecoder decoder_;
  std::int64_t nnz_ = 0;
};

}  // namespace cellfeed::format::parquet_table
