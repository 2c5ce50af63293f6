// Obs columns: what is known of each cell besides its expression. Arrow holds them; FixedColumn is
// the view the loader gathers from, one row at a time, without Arrow's headers.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace arrow {
class Table;
class Array;
class ChunkedArray;
class DataType;
}  // namespace arrow

namespace cellfeed::matrix {

// A fixed-width column of n rows, or the codes of a categorical one (-1 = missing).
// Lifetime: owner keeps values and validity alive. Thread-safe: immutable.
struct FixedColumn {
  std::string name;
  DType dtype = DType::kI8;  // of values; signed integer for categoricals
  std::int64_t length = 0;
  const void* values = nullptr;  // length elements; kBool is one byte each
  // Arrow bitmap, 1 = present; null = all present. Never set for categoricals.
  const std::uint8_t* validity = nullptr;
  bool is_categorical = false;
  bool is_text = false;  // labels row by row: the categories are those that occur, sorted
  bool ordered = false;
  // The categories in code order: an Arrow array of strings, integers, floats or booleans.
  std::shared_ptr<arrow::Array> categories;
  std::shared_ptr<const void> owner;
  // Throws where what was read of values or validity may be wrong, as they lie in a file that was
  // shortened or written to since. Null: they lie in memory.
  std::function<void()> check_source{};
};

// For readers of a column's values, before what they read is used.
inline void require_intact(const FixedColumn& column) {
  if (column.check_source) column.check_source();
}

// The dtype of Arrow numbers and booleans; empty for every other type.
std::optional<DType> dtype_of_arrow(const arrow::DataType& type);

// One Arrow column as a FixedColumn: dictionary -> its codes, string -> dictionary-encoded
// (categories in sorted order), numbers and booleans as they are, a column of nulls -> categorical
// without categories. Throws kUnsupported for other types.
FixedColumn make_fixed_column(const std::string& name, const arrow::ChunkedArray& column);

// The categories as text, for label encoding and messages.
std::vector<std::string> category_texts(const FixedColumn& column);

}  // namespace cellfeed::matrix
