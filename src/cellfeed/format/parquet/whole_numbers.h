// Arrow arrays of integers by their own type. Pure.
#pragma once

#include <arrow/array.h>
#include <arrow/type.h>

#include "cellfeed/base/error.h"

namespace cellfeed::format::parquet_table {

// Calls fn with the array as what it is. REQUIRES: it holds integers.
template <typename Fn>
void with_whole_numbers(const arrow::Array& array, Fn&& fn) {
  switch (array.type_id()) {
    case arrow::Type::INT8:
      return fn(static_cast<const arrow::Int8Array&>(array));
    case arrow::Type::UINT8:
      return fn(static_cast<const arrow::UInt8Array&>(array));
    case arrow::Type::INT16:
      return fn(static_cast<const arrow::Int16Array&>(array));
    case arrow::Type::UINT16:
      return fn(static_cast<const arrow::UInt16Array&>(array));
    case arrow::Type::INT32:
      return fn(static_cast<const arrow::Int32Array&>(array));
    case arrow::Type::UINT32:
      return fn(static_cast<const arrow::UInt32Array&>(array));
    case arrow::Type::INT64:
      return fn(static_cast<const arrow::Int64Array&>(array));
    case arrow::Type::UINT64:
      return fn(static_cast<const arrow::UInt64Array&>(array));
    default:
      throw Error(ErrorKind::kInternal, "not integers: " + array.type()->ToString());
  }
}

}  // namespace cellfeed::format::parquet_table
