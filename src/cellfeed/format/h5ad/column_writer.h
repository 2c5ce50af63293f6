// Writes one column of an AnnData dataframe, piece by piece, in the encoding its Arrow type asks
// for. Not thread-safe.
#pragma once

#include <arrow/type_fwd.h>

#include <memory>
#include <string>

#include "cellfeed/format/h5ad/growing_array.h"

namespace cellfeed::format::h5ad {

class ColumnWriter {
 public:
  virtual ~ColumnWriter() = default;
  // REQUIRES: the type the writer was made for (dictionaries may differ).
  virtual void append(const arrow::Array& rows) = 0;
  virtual void finish() = 0;
};

// name: path in the file. Numbers, booleans and strings become arrays, or nullable ones when a row
// is missing (floats: NaN instead). nullable_mark: of anndata::kNullableKey; with one also without
// a missing row. Dictionaries become categoricals. Throws kUnsupported naming the column for other
// types.
std::unique_ptr<ColumnWriter> make_column_writer(const WriteTarget& target, const std::string& name,
                                                 const arrow::DataType& type,
                                                 const std::string& nullable_mark = "");

}  // namespace cellfeed::format::h5ad
