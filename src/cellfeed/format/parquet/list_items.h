// Lists of a Parquet table, as Arrow has them: where the items of a row lie, and what they are.
#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "cellfeed/format/parquet/table_file.h"

namespace cellfeed::format::parquet_table {

// Views of a column of lists. Lifetime: the column outlives it.
class Lists {
 public:
  // REQUIRES: item_type() of its type is not null.
  explicit Lists(const arrow::Array& column);
  bool is_missing(std::int64_t row) const;
  // Of the items of all rows.
  std::int64_t begin(std::int64_t row) const;
  std::int64_t length(std::int64_t row) const;
  const std::shared_ptr<arrow::Array>& items() const { return items_; }

 private:
  const arrow::Array& column_;
  std::shared_ptr<arrow::Array> items_;
};

// Items of a column of lists, of all rows of a row group, some at a time.
void for_each_items(const TableFile& file, int group, int column,
                    const std::function<void(const arrow::Array& items)>& visit);
// Of integers; those above 2^63 as negative ones. Missing ones are left out, as in for_each_text.
void for_each_id(const arrow::Array& items, const std::function<void(std::int64_t)>& visit);
// Each at least once.
void for_each_text(const arrow::Array& items, const std::function<void(std::string_view)>& visit);

}  // namespace cellfeed::format::parquet_table
