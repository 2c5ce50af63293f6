// Values of an Arrow array of numbers as a matrix has them. Pure.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <string>

#include "cellfeed/base/dtype.h"

namespace cellfeed::format::parquet_table {

// Values [begin, begin + n) as `dtype`, whatever is missing; the position of the first, from begin
// on, that it cannot hold exactly, or -1. REQUIRES: number_dtype() of the array's type is one; room
// for n values.
std::int64_t copy_values(const arrow::Array& array, std::int64_t begin, std::int64_t n, DType dtype,
                         std::byte* out);
// NaN where values that were copied are missing; the position of the first that is where dtype has
// none, or -1.
std::int64_t mark_missing(const arrow::Array& array, std::int64_t begin, std::int64_t n,
                          DType dtype, std::byte* out);
// As text, for messages.
std::string value_text(const arrow::Array& array, std::int64_t i);

}  // namespace cellfeed::format::parquet_table
