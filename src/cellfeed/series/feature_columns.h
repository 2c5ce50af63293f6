// Which columns of a file are features where none are named. Pure but for reading rows.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "cellfeed/series/row_source.h"
#include "cellfeed/series/table.h"

namespace cellfeed::series {

// The columns of numbers, and `texts`, in the file's order; but for those of time, entity, static
// values and the mask.
std::vector<std::string> numeric_columns(const Table& table, const RowColumns& columns,
                                         const std::vector<std::string>& texts = {});
// The same, checked. Throws kNoSuchKey for texts that it lacks, and kInvalidArgument for those
// that cannot be features, and where there are none. doubts: what to say of columns that are none,
// though most of their texts are numbers.
std::vector<std::string> numeric_features(const Table& table, const RowColumns& columns,
                                          const std::vector<std::string>& texts,
                                          std::vector<std::string>& doubts);
// The columns of texts whose first values are numbers, and that are nothing else. Reads rows.
std::vector<std::string> numbers_in_texts(Table& table, const RowColumns& columns);

}  // namespace cellfeed::series
