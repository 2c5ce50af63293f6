// one_array: a column in pieces as one Arrow array. Pure.
#pragma once

#include <arrow/result.h>
#include <arrow/type_fwd.h>

#include <memory>

namespace cellfeed::matrix {

// Not copied where it is in one piece. Pieces with dictionaries of their own get one of all labels.
arrow::Result<std::shared_ptr<arrow::Array>> one_array(const arrow::ChunkedArray& column);

}  // namespace cellfeed::matrix
