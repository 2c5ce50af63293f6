// Which types of columns can be what. Pure.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <optional>

#include "cellfeed/base/dtype.h"

namespace cellfeed::format::parquet_table {

// Of numbers, what rows hold them as: float16 widens to float32. Booleans are none.
std::optional<DType> number_dtype(const arrow::DataType& type);
inline bool holds_numbers(const arrow::DataType& type) { return number_dtype(type).has_value(); }
bool holds_times(const arrow::DataType& type);
bool holds_texts(const arrow::DataType& type);  // repeated ones too, stored once
// Of a list its items, else null.
std::shared_ptr<arrow::DataType> item_type(const arrow::DataType& type);
bool holds_gene_lists(const arrow::DataType& type);  // of integers or texts
bool holds_value_lists(const arrow::DataType& type);
bool names_cells(const arrow::DataType& type);
// What a column of obs becomes; null where it cannot be one.
std::shared_ptr<arrow::DataType> obs_type(const arrow::DataType& type);

}  // namespace cellfeed::format::parquet_table
