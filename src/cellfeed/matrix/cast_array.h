// Arrow arrays as another type. Pure.
#pragma once

#include <arrow/array.h>
#include <arrow/compute/cast.h>
#include <arrow/result.h>
#include <arrow/type.h>

#include <memory>
#include <string>

namespace cellfeed::matrix {

// Exactly; the array itself where it has the type. refuse(text) throws what is to be said where a
// value does not fit, which the text names.
template <typename Refuse>
std::shared_ptr<arrow::Array> cast_array(const std::shared_ptr<arrow::Array>& array,
                                         const std::shared_ptr<arrow::DataType>& type,
                                         const Refuse& refuse) {
  if (array->type()->Equals(*type)) return array;
  const arrow::Result<std::shared_ptr<arrow::Array>> cast = arrow::compute::Cast(*array, type);
  if (!cast.ok()) refuse(cast.status().message());
  return *cast;
}

}  // namespace cellfeed::matrix
