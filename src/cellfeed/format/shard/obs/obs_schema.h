// The obs columns that the shards of one directory share, and how a table is brought to them. Pure.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cellfeed/base/dtype.h"

namespace arrow {
class Schema;
class Table;
}  // namespace arrow

namespace cellfeed::format::shard {

inline constexpr const char* kIndexColumn = "_index";
inline constexpr const char* kSourceFileColumn = "_source_file";
inline constexpr const char* kSourceRowColumn = "_source_row";

// The schema that shards keep for a table of these columns: categoricals as dictionary<int32, ...>,
// texts as utf8, "_index" first, _source_file and _source_row last. Throws kUnsupported for nested
// columns, naming source. Several sources are one table by then (matrix/obs_union.h).
std::shared_ptr<arrow::Schema> stored_obs_schema(const arrow::Schema& schema,
                                                 const std::string& source);

// A source's rows in that schema: missing columns become missing values; _source_file and
// _source_row are set unless the table brings both along (a shard directory converted again keeps
// the first origin of its cells).
std::shared_ptr<arrow::Table> conform_obs(const std::shared_ptr<arrow::Table>& obs,
                                          const std::shared_ptr<arrow::Schema>& schema,
                                          const std::string& source_name,
                                          std::span<const std::int64_t> source_rows);

}  // namespace cellfeed::format::shard
