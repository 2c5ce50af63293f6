// TableUnion: the obs (or var) tables of several sources as one table: columns united, types
// promoted, categories joined.
//
// Columns keep the order of first appearance; a source that lacks a column gives nulls. Types and
// categories are those of matrix::unite_obs. A column without any value is text.
// Thread-safe: conform() may run on several threads after finish().
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class KeyValueMetadata;
class Schema;
class Table;
}  // namespace arrow

namespace cellfeed::convert {

class TableUnion {
 public:
  // what: "obs" or "var", for messages.
  explicit TableUnion(std::string what);
  ~TableUnion();

  // sample: any rows of the source; dictionary columns must carry all their categories.
  void add_source(const arrow::Table& sample, const std::string& path);
  // Once, after the last source. Throws kInvalidArgument naming the column and two files where
  // their types cannot be united.
  void finish();

  // Types of the united table.
  std::shared_ptr<arrow::Schema> schema() const;
  // Rows of source number `source` (in order of add_source) as rows of the united table, one chunk
  // a column. Throws kPrecision for a number that the united type cannot hold.
  std::shared_ptr<arrow::Table> conform(const arrow::Table& rows, std::size_t source) const;

 private:
  struct Column;
  Column* find(const std::string& name) const;
  std::string what_;
  std::vector<std::string> paths_;
  std::shared_ptr<const arrow::KeyValueMetadata> metadata_;  // of the first source: names the index
  std::vector<std::unique_ptr<Column>> columns_;
};

// The table without these columns; names that are not there are ignored.
std::shared_ptr<arrow::Table> drop_columns(const arrow::Table& table,
                                           const std::vector<std::string>& names);

}  // namespace cellfeed::convert
