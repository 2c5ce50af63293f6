// ObsTable: what a Parquet table says of its cells beside their values; a column is read when it is
// asked for. Thread-safe. Lifetime: file and columns outlive it.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/parquet/table_columns.h"
#include "cellfeed/format/parquet/table_file.h"
#include "cellfeed/matrix/obs.h"

namespace cellfeed::format::parquet_table {

class ObsTable {
 public:
  ObsTable(const TableFile& file, const TableColumns& columns);

  std::vector<std::string> names() const;
  // As those of RowStore.
  matrix::FixedColumn column(const std::string& name) const;
  std::shared_ptr<arrow::Table> read(std::int64_t begin, std::int64_t end) const;
  // Lets go what is kept for rows that follow.
  void release() const;

 private:
  // Of one row group the columns that were asked for, as they are given on.
  struct Group {
    int number = -1;
    std::vector<std::shared_ptr<arrow::ChunkedArray>> columns;
  };
  // Its first rows, at least n_rows.
  std::shared_ptr<const Group> read_group(int number, const std::vector<int>& columns,
                                          std::int64_t n_rows) const;
  // For rows [begin, end) of it.
  std::shared_ptr<const Group> group_of_all(int number, std::int64_t begin, std::int64_t end) const;
  // Columns of the rows, one array each.
  std::vector<std::shared_ptr<arrow::Array>> rows_of(std::int64_t begin, std::int64_t end,
                                                     const std::vector<int>& columns) const;
  std::shared_ptr<arrow::Array> conform(int column, const arrow::Array& part) const;
  // All that occur in the file: of the rows of one group the others are missing.
  std::shared_ptr<arrow::Array> categories_of(int column) const;
  std::shared_ptr<arrow::Array> numbers_as_names(std::int64_t begin, std::int64_t end) const;
  [[noreturn]] void throw_no_column(const std::string& name) const;
  std::shared_ptr<arrow::DataType> type_of(int column) const;

  const TableFile& file_;
  const TableColumns& columns_;
  std::vector<int> all_;  // of obs, and the index: ascending
  mutable ForkSafeMutex mutex_;
  // State below is protected by mutex_.
  mutable std::shared_ptr<const Group> last_;  // of all columns, where others of its rows follow
  mutable std::map<int, std::shared_ptr<arrow::Array>> categories_;
};

}  // namespace cellfeed::format::parquet_table
