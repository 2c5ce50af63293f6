// Dataframe: obs or var of an AnnData file, column by column and by ranges of rows.
// Thread-safe. Lifetime: the tree outlives it.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/fork_safe_mutex.h"
#include "cellfeed/format/anndata/column_reader.h"
#include "cellfeed/format/stored_tree.h"

namespace cellfeed::format::anndata {

struct UnreadableColumn {
  std::string name, why;
};

class Dataframe {
 public:
  // name: "obs", "var", "raw/var" or "raw.var". n_rows: what the matrix says; none: what the table
  // says. Throws kCorruptData when the index has another length, or nothing says how many there
  // are.
  Dataframe(const StoredTree& file, std::string name, std::optional<std::int64_t> n_rows);

  std::int64_t n_rows() const { return n_rows_; }
  const std::string& name() const { return name_; }
  // Without the index.
  const std::vector<std::string>& columns() const { return columns_; }
  std::shared_ptr<arrow::Array> read_column(const std::string& column, std::int64_t begin,
                                            std::int64_t end) const;
  // What else of the file holds values of it: the categories in uns of a compound table.
  std::vector<std::string> groups_beside() const;
  // Always strings. obs without an index has its rows named by position.
  std::shared_ptr<arrow::Array> read_index(std::int64_t begin, std::int64_t end) const;
  // "_index" first, without columns that cannot be read, which kUnreadableKey of the
  // schema metadata names; schema metadata "index_name" is the name the file gives it.
  std::shared_ptr<arrow::Table> read(std::int64_t begin, std::int64_t end) const;

 private:
  void open_group(const StoredNode& group);
  // The compound tables of anndata 0.5 and 0.6.
  void open_table(std::unique_ptr<StoredNode> table);
  void check_length() const;
  void require_names() const;
  void require_name(const std::string& column) const;
  std::int64_t own_length() const;
  std::unique_ptr<ColumnReader> make_reader(const std::string& column) const;
  std::unique_ptr<ColumnReader> make_member_reader(const std::string& column) const;
  const ColumnReader& reader(const std::string& column) const;
  // Looks at each column, once.
  std::vector<UnreadableColumn> unreadable() const;
  std::string why_unreadable(const std::string& column) const;

  const StoredTree& file_;
  std::string name_;
  std::int64_t n_rows_ = 0;
  std::unique_ptr<const StoredNode> table_;  // null where the columns are members of a group
  std::string index_name_;
  bool has_index_ = false;
  std::vector<std::string> columns_;
  mutable ForkSafeMutex readers_mutex_;  // guards what follows; values of readers_ stay
  mutable std::map<std::string, std::unique_ptr<ColumnReader>> readers_;
  mutable std::optional<std::vector<UnreadableColumn>> unreadable_;
};

}  // namespace cellfeed::format::anndata
