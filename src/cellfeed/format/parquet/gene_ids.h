// GeneIds: the genes of a table of lists, and which of them an entry of a list is. Thread-safe:
// const once made.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "cellfeed/format/parquet/table_columns.h"
#include "cellfeed/format/parquet/table_file.h"

namespace cellfeed::format::parquet_table {

inline constexpr std::int32_t kNoGene = -1;

// A table of genes of which nothing but the names is known.
std::shared_ptr<arrow::Table> table_of_names(const std::vector<std::string>& names);

class GeneIds {
 public:
  // Those of var_path, where one is named; else of all names that occur, sorted, or of all ids up
  // to the largest. Names are looked at throughout the file, ids where its footer does not tell.
  // Throws kCorruptData or kInvalidArgument naming the file and the column.
  GeneIds(const TableFile& file, const TableColumns& columns, const std::string& var_path);

  std::vector<std::string> take_names() { return std::move(names_); }
  // "_index", then what the table of genes has.
  const std::shared_ptr<arrow::Table>& table() const { return table_; }
  bool has_table() const { return has_table_; }

  // kNoGene where there is none.
  std::int32_t column_of_id(std::int64_t id) const {
    if (id < 0) return kNoGene;
    if (!has_table_) return id < n_ids_ ? static_cast<std::int32_t>(id) : kNoGene;
    return id < std::ssize(columns_of_ids_) ? columns_of_ids_[static_cast<std::size_t>(id)]
                                            : kNoGene;
  }
  std::int32_t column_of_name(std::string_view name) const {
    const auto found = columns_of_names_.find(std::string(name));
    return found == columns_of_names_.end() ? kNoGene : found->second;
  }

 private:
  void read_table(const std::string& path, bool has_names);
  void number_ids(const TableFile& file, int column);
  void collect_names(const TableFile& file, int column);
  void index_names(const std::string& path);

  std::vector<std::string> names_;
  std::shared_ptr<arrow::Table> table_;
  bool has_table_ = false;
  std::int64_t n_ids_ = 0;
  std::vector<std::int32_t> columns_of_ids_;
  std::unordered_map<std::string, std::int32_t> columns_of_names_;
};

}  // namespace cellfeed::format::parquet_table
