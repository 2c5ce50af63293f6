// One-dimensional HDF5 datasets, and members of compound ones, as Arrow arrays: numbers, booleans,
// strings.
#pragma once

#include <arrow/type_fwd.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "cellfeed/hdf5/file.h"

namespace cellfeed::format {

// Where the values of a column lie: one in each element of a dataset.
struct StoredColumn {
  std::string name;  // its path in the file
  hdf5::Dataset dataset;
  hdf5::Datatype type;       // of a value
  std::uint64_t offset = 0;  // of a value in its element

  std::int64_t length() const;  // 0 for what has no dimension
};

// The elements themselves.
StoredColumn column_of(const hdf5::Dataset& dataset);
// One member of compound elements. REQUIRES: there are more than `member`.
StoredColumn column_of(const hdf5::Dataset& table, std::size_t member);

// Values [begin, end). float16 widens to float32. Throws kUnsupported naming the column when its
// type has no Arrow counterpart, and kCorruptData for texts that are not UTF-8.
std::shared_ptr<arrow::Array> read_values(const StoredColumn& column, std::int64_t begin,
                                          std::int64_t end);
// All values, of a dataset without a dimension too, which has one.
std::shared_ptr<arrow::Array> read_all_values(const StoredColumn& column);

bool is_utf8(std::string_view text);

// Throws kInternal with Arrow's account when status is an error.
void check_arrow(const arrow::Status& status);

}  // namespace cellfeed::format
